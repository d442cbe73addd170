! Writes a step, or puts back what a step has that somebody else wrote:
! steps CONTACT write|echo|leave NUMBER
program steps
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  use tranship
  implicit none
  integer, parameter :: patience = 20
  type(tranship_staging) :: staging
  character(300) :: contact, what, text
  integer(int64) :: number

  call get_command_argument(1, contact)
  call get_command_argument(2, what)
  call get_command_argument(3, text)
  read (text, *) number
  call check(tranship_open(contact, staging, patience))
  select case (what)
  case ('write')
    call write_step(.false.)
    call read_back()
    call read_attributes()
  case ('leave')
    call write_step(.true.)
  case default
    call echo()
  end select
  call check(tranship_close(staging))

contains

  subroutine write_step(leave)
    logical, intent(in) :: leave
    type(tranship_step_writer) :: step
    type(tranship_request) :: request
    real(real64), target :: energy(3, 4)
    integer(int32) :: ids(5)
    complex(real64) :: waves(2, 2, 2, 2)
    integer(int64) :: least
    integer :: i, j
    do concurrent (i = 1:3, j = 1:4)
      energy(i, j) = (4*(i - 1) + j - 1)/7.0_real64
    end do
    ids = [100, 50, 0, -50, -100]
    waves = (1.5_real64, -2.5_real64)
    call check(tranship_step_begin(staging, number, patience, step))
    call check(tranship_step_put_async(step, 'energy', &
                                       tranship_array_of(energy(2:3, :), [1, -2]), patience, &
                                       request))
    call check(tranship_step_put(step, 'energy', energy(1:1, :), patience, lower=[0, -2]))
    call check(tranship_step_put(step, 'ids', ids, patience))
    call tranship_request_free(request)
    call check(tranship_step_set(step, 'time', 0.1_real64))
    least = -huge(least)
    least = least - 1
    call check(tranship_step_set(step, 'count', least))
    call check(tranship_step_set(step, 'label', &
                                 'a "label"'//new_line('a')//achar(9)//'with '//char(195)// &
                                 char(164)//', '//achar(1)//' and \   '))
    call check(tranship_step_set_json(step, 'sizes', '[3, 4, {"deep": null}]'))
    call check(tranship_step_set(step, 'unit', 'eV', variable='energy'))
    call check(tranship_step_set(step, 'unit', 'J', variable='energy'))  ! the later value holds
    if (.not. leave) then
      call check(tranship_step_end(step, patience))
      call expect(tranship_step_put(step, 'ids', ids, patience) == TRANSHIP_INVALID_ARGUMENT)
      call expect(tranship_step_give_up(step, 'late') == TRANSHIP_INVALID_ARGUMENT)
    end if
    call tranship_step_free(step)
    call tranship_step_free(step)  ! of nothing
    if (leave) return
    call check(tranship_put(staging, 'waves', 0, waves(:, 2:1:-1, ::2, :), patience))
  end subroutine

  ! Reads the step that was written, and follows, discards and gives up others.
  subroutine read_back()
    type(tranship_step_writer) :: writer
    type(tranship_step) :: step
    type(tranship_variable) :: variable
    real(real64) :: energy(0:4, 0:5)
    character(:), allocatable :: name
    call check(tranship_step_latest(staging, patience, step))
    call expect(tranship_step_number(step) == number .and. tranship_step_size(step) == 2)
    call check(tranship_step_name(step, 2, name))
    call expect(name == 'ids')
    call expect(tranship_step_name(step, 3, name) == TRANSHIP_OUT_OF_RANGE)
    call check(tranship_step_describe(step, 'energy', variable))
    call expect(all(variable%lower(:2) == [0, -2]) .and. all(variable%upper(:2) == [3, 2]))
    energy = -1
    call check(tranship_step_get(step, 'energy', energy(1:3, 1:4), patience, variable%lower(:2)))
    call expect(count(energy >= 0) == 12 .and. abs(energy(3, 4) - 11/7.0_real64) < 1e-15_real64)
    call expect(tranship_step_get(step, 'energy', energy, patience) == TRANSHIP_NOT_FOUND)
    call expect(tranship_step_get(step, 'none', energy, patience) == TRANSHIP_NOT_FOUND)
    call tranship_step_free(step)

    call check(tranship_step_begin(staging, number + 1, patience, writer, writers=1))
    call check(tranship_step_give_up(writer, 'of no use'))
    call tranship_step_free(writer)
    call expect(tranship_step_find(staging, number + 1, patience, step) == TRANSHIP_NOT_FOUND)
    call expect(index(tranship_last_error(), 'of no use') > 0)
    call check(tranship_step_begin(staging, number + 2, patience, writer))
    call check(tranship_step_end(writer, patience))
    call tranship_step_free(writer)
    call check(tranship_step_next(staging, number, patience, step))  ! passes the broken one by
    call expect(tranship_step_number(step) == number + 2)
    call tranship_step_free(step)
    call check(tranship_step_discard(staging, number + 2))
    call expect(tranship_step_find(staging, number + 2, patience, step) == TRANSHIP_NOT_FOUND)
    call check(tranship_step_find(staging, number, patience, step))
    call tranship_step_free(step)
  end subroutine

  ! Attributes of the run and of a variable, of every type and of the wrong one.
  subroutine read_attributes()
    type(tranship_attributes) :: attributes
    real(real64) :: real_value
    integer(int64) :: whole
    character(:), allocatable :: word
    call check(tranship_set(staging, 'real', 0.5_real32))
    call check(tranship_set(staging, 'whole', 7))
    call check(tranship_set(staging, 'word', 'hello', variable='ids'))
    call check(tranship_set_json(staging, 'list', '[1]', variable='ids'))
    call check(tranship_attributes_of(staging, attributes))
    call check(tranship_attributes_get(attributes, 'real', real_value))
    call expect(abs(real_value - 0.5_real64) < 1e-15_real64)
    call check(tranship_attributes_get(attributes, 'whole', whole))
    call expect(whole == 7)
    call expect(tranship_attributes_get(attributes, 'real', whole) == TRANSHIP_INVALID_ARGUMENT)
    call expect(tranship_attributes_get(attributes, 'real', word) == TRANSHIP_INVALID_ARGUMENT)
    call expect(tranship_attributes_get(attributes, 'none', word) == TRANSHIP_NOT_FOUND)
    call tranship_attributes_free(attributes)
    call tranship_attributes_free(attributes)  ! of nothing
    call check(tranship_attributes_of(staging, attributes, variable='ids'))
    call expect(tranship_attributes_size(attributes) == 2)
    call check(tranship_attributes_name(attributes, 1, word))
    call expect(word == 'list')
    call check(tranship_attributes_json(attributes, 'list', word))
    call expect(word == '[1]')
    call check(tranship_attributes_get(attributes, 'word', word))
    call expect(word == 'hello')
    call tranship_attributes_free(attributes)
    call check(tranship_unset(staging, 'word', variable='ids'))
    call expect(tranship_unset(staging, 'word', variable='ids') == TRANSHIP_NOT_FOUND)
  end subroutine

  subroutine echo()
    type(tranship_step) :: step
    type(tranship_attributes) :: attributes
    real(real64) :: energy(3, 4), time
    integer(int32) :: ids(5)
    integer(int64) :: many
    character(:), allocatable :: label, key, json
    integer :: k
    call check(tranship_step_next(staging, number - 1, patience, step))
    call check(tranship_step_get(step, 'energy', energy, patience, lower=[0, -2]))
    call check(tranship_step_get(step, 'ids', ids, patience))
    call check(tranship_put(staging, 'echo of energy', number, energy, patience, lower=[0, -2]))
    call check(tranship_put(staging, 'echo of ids', number, ids, patience))
    call check(tranship_step_attributes(step, attributes, variable='energy'))
    call check(tranship_attributes_json(attributes, 'unit', json))
    call check(tranship_set_json(staging, 'unit', json, variable='energy'))
    call check(tranship_step_attributes(step, attributes))
    do k = 1, tranship_attributes_size(attributes)
      call check(tranship_attributes_name(attributes, k, key))
      call check(tranship_attributes_json(attributes, key, json))
      call check(tranship_set_json(staging, key, json))
    end do
    call check(tranship_attributes_get(attributes, 'time', time))
    call check(tranship_attributes_get(attributes, 'count', many))
    call check(tranship_attributes_get(attributes, 'label', label))
    call tranship_attributes_free(attributes)  ! the step keeps them
    call check(tranship_step_attributes(step, attributes))
    call check(tranship_attributes_get(attributes, 'time', time))
    call tranship_step_free(step)
    print '(i0, 1x, g0, 1x, i0, 1x, a)', number, time, many, label
  end subroutine

  subroutine expect(truth)
    logical, intent(in) :: truth
    if (truth) return
    write (error_unit, '(2a)') 'not as expected; the last error: ', tranship_last_failure()
    error stop 1
  end subroutine

  subroutine check(code)
    integer, intent(in) :: code
    if (code == TRANSHIP_OK) return
    write (error_unit, '(a)') tranship_last_failure()
    error stop 1
  end subroutine
end program steps
