! Puts arrays of every type and rank that the module supports, whole and in sections, for Python to
! get; and gets an array that Python put into a section.
program arrays
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  use tranship
  implicit none
  real(real64), parameter :: patience = 20
  real(real32), target :: a4(3, 4, 5)
  real(real64), target :: a8(3, 4, 5), four(3, 4, 5, 2)
  integer(int32), target :: j4(3, 4, 5)
  integer(int64), target :: j8(3, 4, 5)
  complex(real32) :: c8(3, 4, 5)
  complex(real64) :: c16(3, 4, 5)
  type(tranship_staging) :: staging
  integer :: i, j, k

  do concurrent (i = 1:3, j = 1:4, k = 1:5)
    a8(i, j, k) = i + 10*j + 100*k
  end do
  a4 = real(a8, real32)
  j4 = int(a8, int32)
  j8 = int(a8, int64)
  c8 = cmplx(a8, -a8, real32)
  c16 = cmplx(a8, 2*a8, real64)
  call check(tranship_open('staging.contact', staging, patience, name='arrays of Fortran'))

  call put('f4', 1, tranship_array_of(a4(:, 1, 1)))
  call put('f4', 2, tranship_array_of(a4(:, :, 1)))
  call put('f4', 3, tranship_array_of(a4))
  call put('f4', 4, tranship_array_of(a4(::2, 4:2:-1, 2:4)))
  call put('f8', 1, tranship_array_of(a8(:, 1, 1)))
  call put('f8', 2, tranship_array_of(a8(:, :, 1)))
  call put('f8', 3, tranship_array_of(a8))
  call put('f8', 4, tranship_array_of(a8(::2, 4:2:-1, 2:4)))
  call put('i4', 1, tranship_array_of(j4(:, 1, 1)))
  call put('i4', 2, tranship_array_of(j4(:, :, 1)))
  call put('i4', 3, tranship_array_of(j4))
  call put('i4', 4, tranship_array_of(j4(::2, 4:2:-1, 2:4)))
  call put('i8', 1, tranship_array_of(j8(:, 1, 1)))
  call put('i8', 2, tranship_array_of(j8(:, :, 1)))
  call put('i8', 3, tranship_array_of(j8))
  call put('i8', 4, tranship_array_of(j8(::2, 4:2:-1, 2:4)))
  call put('placed', 0, tranship_array_of(a8(:, :, 1), lower=[-5_int64, 7_int64]))
  four = spread(a8, 4, 2)
  call put('four', 0, tranship_array_of(four))

  call pass_arrays_themselves()
  call pass_many_dimensions()
  call get_from_python()
  call pass_default_kinds()
  call go_behind()
  call be_refused()
  call check(tranship_close(staging))
  call check(tranship_close(staging))  ! of nothing

contains

  subroutine put(variable, version, array)
    character(*), intent(in) :: variable
    integer, intent(in) :: version
    type(tranship_array), intent(in) :: array
    character(:), allocatable :: name
    ! A variable keeps its rank.
    name = variable
    if (version < 3 .and. len(variable) == 2) name = variable//achar(ichar('0') + version)
    call check(tranship_put(staging, name, int(version, int64), array, patience))
  end subroutine

  ! Arrays of each type as arguments: no target, and no description.
  subroutine pass_arrays_themselves()
    real(real32) :: b4(2, 4)
    real(real64) :: b8(2, 4)
    integer(int32) :: k4(2, 4)
    integer(int64) :: k8(2, 4), version
    complex(real32) :: d8(2, 4)
    complex(real64) :: d16(0:3, 0:4), one
    call check(tranship_put(staging, 'own f4', 0, a4(::2, :, 1), patience))
    call check(tranship_get(staging, 'own f4', 0, b4, patience))
    call expect(all(nint(b4) == nint(a4(::2, :, 1))))
    call check(tranship_put(staging, 'own f8', 0_int64, a8(::2, :, 1), patience, lower=[-1, 2]))
    call check(tranship_get(staging, 'own f8', 0_int64, b8, 20, lower=[-1_int64, 2_int64]))
    call expect(all(nint(b8) == nint(a8(::2, :, 1))))
    call check(tranship_put(staging, 'own i4', 0, j4(::2, :, 1), patience))
    call check(tranship_get_next(staging, 'own i4', TRANSHIP_FIRST, k4, patience, version))
    call expect(version == 0 .and. all(k4 == j4(::2, :, 1)))
    call check(tranship_put(staging, 'own i8', 0, j8(::2, :, 1), patience))
    call check(tranship_get_next(staging, 'own i8', -1, k8, patience, version))
    call expect(version == 0 .and. all(k8 == j8(::2, :, 1)))
    call check(tranship_put(staging, 'own c8', 0, c8(::2, :, 1), patience))
    call check(tranship_get_latest(staging, 'own c8', d8, patience, version))
    call expect(version == 0 .and. all(nint(aimag(d8)) == -nint(a8(::2, :, 1))))
    call check(tranship_put(staging, 'own c16', 0, c16(::2, :, 1), patience))
    d16 = 0
    call check(tranship_get(staging, 'own c16', 0, d16(3:1:-2, 4:1:-1), patience))
    call expect(all(nint(aimag(d16(3:1:-2, 4:1:-1))) == 2*nint(a8(::2, :, 1))))
    call expect(count(abs(d16) > 0) == 8)
    call check(tranship_put(staging, 'own number', 0, (1.5_real64, 2.5_real64), patience))
    call check(tranship_get(staging, 'own number', 0, one, patience))
    call expect(abs(one - (1.5_real64, 2.5_real64)) < 1e-15_real64)
    call expect(tranship_put(staging, 'own f4', 1, a4(:, :, 1), patience, lower=[1]) &
                == TRANSHIP_INVALID_ARGUMENT)
    call expect(tranship_put(staging, 'own f4', 1, a4(:, :, 1), patience, lower=[1.0, 2.0]) &
                == TRANSHIP_INVALID_ARGUMENT)
  end subroutine

  ! Sections of up to seven dimensions are not copied, and keep their indices.
  subroutine pass_many_dimensions()
    integer(int32) :: seven(3, 2, 3, 2, 3, 2, 3), got(5, 2, 3, 2, 3, 2, 3)
    integer :: l
    seven = reshape([(l, l=1, 3*2*3*2*3*2*3)], [3, 2, 3, 2, 3, 2, 3])
    got = 0
    call check(tranship_put(staging, 'seven', 0, seven(::2, :, 3:1:-1, :, ::2, :, 2:3), patience))
    call check(tranship_get(staging, 'seven', 0, got(5:1:-4, :, :, :, 1:3:2, :, 1:2), patience))
    call expect(all(got(5:1:-4, :, :, :, 1:3:2, :, 1:2) == seven(::2, :, 3:1:-1, :, ::2, :, 2:3)))
    call expect(count(got /= 0) == 2*2*3*2*2*2*2)
    call check(tranship_put(staging, 'six', 0, seven(1, :, 3:1:-1, :, ::2, :, 2:3), patience))
    call check(tranship_put(staging, 'five', 0, seven(1, 2, 3:1:-1, :, ::2, :, 2:3), patience))
    call check(tranship_put(staging, 'four of seven', 0, seven(1, 2, 3, :, ::2, :, 2:3), patience))
    got = 0
    call check(tranship_get(staging, 'six', 0, got(3, :, :, :, 2:3, :, 1:2), patience))
    call expect(all(got(3, :, :, :, 2:3, :, 1:2) == seven(1, :, 3:1:-1, :, ::2, :, 2:3)))
    call check(tranship_get(staging, 'five', 0, got(1, 1, :, :, 2:3, :, 1:2), patience))
    call expect(all(got(1, 1, :, :, 2:3, :, 1:2) == seven(1, 2, 3:1:-1, :, ::2, :, 2:3)))
    call check(tranship_get(staging, 'four of seven', 0, got(1, 1, 1, :, ::2, :, 2:3), patience))
    call expect(all(got(1, 1, 1, :, ::2, :, 2:3) == seven(1, 2, 3, :, ::2, :, 2:3)))
  end subroutine

  subroutine get_from_python()
    real(real64), target :: around(0:5, 0:6, 0:7)
    type(tranship_variable) :: variable
    integer(int64) :: version
    around = -1
    call check(tranship_describe(staging, 'from python', patience, variable))
    call expect(variable%rank == 3 .and. variable%type(1) == 'f' .and. variable%type(2) == '8')
    call expect(all(variable%lower(:3) == [-1, 2, 0]) .and. all(variable%upper(:3) == [2, 6, 5]))
    call check(tranship_wait_next(staging, 'from python', TRANSHIP_FIRST, &
                                  tranship_box([3_int64, 4_int64, 5_int64], variable%lower(:3)), &
                                  patience, version))
    call expect(version == 7)
    call check(tranship_get_next(staging, 'from python', TRANSHIP_FIRST, &
                                 tranship_array_of(around(2:4, 1:4, 2:6), variable%lower(:3)), &
                                 patience, version))
    call expect(version == 7)
    do i = 0, 2
      do j = 0, 3
        do k = 0, 4
          call expect(nint(around(2 + i, 1 + j, 2 + k)) == 20*i + 5*j + k)  ! as NumPy counts
        end do
      end do
    end do
    call expect(count(around >= 0) == 60)
    around = -1
    call check(tranship_get_latest(staging, 'from python', &
                                   tranship_array_of(around(1:1, 1:1, 1:5), variable%lower(:3)), &
                                   patience, version))
    call expect(all(nint(around(1, 1, 1:5)) == [0, 1, 2, 3, 4]) .and. count(around >= 0) == 5)
  end subroutine

  ! Literals as one writes them: versions, indices and timeouts of default kinds.
  subroutine pass_default_kinds()
    real(real64), target :: got(3)
    type(tranship_request) :: request
    integer(int64) :: version
    call check(tranship_put(staging, 'plain', 0, tranship_array_of(a8(:, 1, 1), lower=[2]), 20))
    call check(tranship_get(staging, 'plain', 0, tranship_array_of(got, [2]), 20.0))
    call expect(all(nint(got) == nint(a8(:, 1, 1))))
    call check(tranship_wait_next(staging, 'plain', -1, tranship_box([3], [2]), 20_int64, version))
    call expect(version == 0)
    call check(tranship_get_next(staging, 'plain', -1, tranship_array_of(got, [2]), 20, version))
    call check(tranship_put_async(staging, 'plain', 1, tranship_array_of(got, [2]), 20, request))
    call check(tranship_request_wait(request, 20))
    call tranship_request_free(request)
    call check(tranship_get_async(staging, 'plain', 1, tranship_array_of(got, [2]), 20, request))
    call check(tranship_request_wait(request, 20.0))
    call tranship_request_free(request)
    call check(tranship_discard(staging, 'plain', 0))
    call expect(tranship_get(staging, 'plain', 1, tranship_array_of(got, [2]), 'soon') &
                == TRANSHIP_INVALID_ARGUMENT)
    call expect(tranship_last_failure() == tranship_last_error()//'; '//tranship_last_hint())
  end subroutine

  subroutine go_behind()
    type(tranship_request) :: first, second
    integer(int32), target :: got(3, 4, 5)
    logical :: ended
    call check(tranship_get_async(staging, 'behind', 1_int64, tranship_array_of(got), patience, &
                                  first))
    call check(tranship_request_test(first, ended))
    call expect(.not. ended)
    call expect(tranship_request_wait(first, 0.01_real64) == TRANSHIP_TIMEOUT)
    call check(tranship_put_async(staging, 'behind', 1_int64, tranship_array_of(j4), patience, &
                                  second))
    call check(tranship_request_wait(second, patience))
    call check(tranship_request_wait(first, patience))
    call check(tranship_request_test(first, ended))
    call expect(ended .and. all(got == j4))
    call tranship_request_free(first)
    call tranship_request_free(second)
    call check(tranship_discard(staging, 'behind', 1_int64))
    call expect(tranship_get(staging, 'behind', 1_int64, tranship_array_of(got), patience) &
                == TRANSHIP_NOT_FOUND)
    call expect(index(tranship_last_error(), 'was discarded') > 0)
  end subroutine

  subroutine be_refused()
    real(real64), target :: none(0), eight(1, 1, 3, 1, 1, 1, 1, 1)
    type(tranship_array) :: array
    eight = 0
    call refused(tranship_array_of(none), 'extent 0')
    call refused(tranship_array_of(eight(:, :, ::2, :, :, :, :, :)), 'data is NULL')
    call refused(tranship_array_of(a8, lower=[1_int64]), 'rank is -1')
    array = tranship_box([(1_int64, k = 1, 17)])
    call refused(array, 'rank is 17')
    call expect(tranship_discard(tranship_staging(), 'x', 1_int64) == TRANSHIP_INVALID_ARGUMENT)
  end subroutine

  subroutine refused(array, why)
    type(tranship_array), intent(in) :: array
    character(*), intent(in) :: why
    call expect(tranship_put(staging, 'refused', 1_int64, array, patience) &
                == TRANSHIP_INVALID_ARGUMENT)
    call expect(index(tranship_last_error(), why) > 0)
    call expect(len(tranship_last_hint()) > 0)
  end subroutine

  subroutine expect(truth)
    logical, intent(in) :: truth
    if (truth) return
    write (error_unit, '(2a)') 'not as expected; the last error: ', tranship_last_error()
    error stop 1
  end subroutine

  subroutine check(code)
    integer, intent(in) :: code
    if (code == TRANSHIP_OK) return
    write (error_unit, '(a)') tranship_last_error()
    error stop 1
  end subroutine
end program arrays
