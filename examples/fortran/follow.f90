! Follows the steps of a wave to the end, and prints the time and the energy of each.
program follow
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use tranship
  implicit none
  integer, parameter :: patience = 30  ! seconds
  type(tranship_staging) :: staging
  type(tranship_step) :: step
  type(tranship_attributes) :: attributes
  integer(int64) :: last
  integer :: code
  character(:), allocatable :: name

  call check(tranship_open('staging.contact', staging, patience))
  last = TRANSHIP_FIRST
  do
    code = tranship_step_next(staging, last, patience, step)
    if (code == TRANSHIP_CLOSED) exit  ! every process that wrote steps has closed
    call check(code)
    last = tranship_step_number(step)
    print '(i0, 1x, f0.6, 1x, f0.6)', last, time_of(step), energy_of(step)
    call tranship_step_free(step)
  end do
  call check(tranship_attributes_of(staging, attributes))
  call check(tranship_attributes_get(attributes, 'code', name))
  print '(2a)', 'of ', name
  call tranship_attributes_free(attributes)
  call check(tranship_close(staging))

contains

  real(real64) function time_of(step)
    type(tranship_step), intent(in) :: step
    type(tranship_attributes) :: own  ! part of the step
    call check(tranship_step_attributes(step, own))
    call check(tranship_attributes_get(own, 'time', time_of))
  end function

  real(real64) function energy_of(step)
    type(tranship_step), intent(in) :: step
    type(tranship_variable) :: found
    real(real64), allocatable :: height(:), speed(:)
    integer(int64) :: points
    call check(tranship_step_describe(step, 'height', found))
    points = found%upper(1) - found%lower(1)
    allocate (height(points), speed(points))
    call check(tranship_step_get(step, 'height', height, patience))
    call check(tranship_step_get(step, 'speed', speed, patience))
    energy_of = sum(speed(:points - 1)**2 + (height(2:) - height(:points - 1))**2)/2
  end function

  subroutine check(code)
    integer, intent(in) :: code
    if (code == TRANSHIP_OK) return
    write (error_unit, '(a)') tranship_last_failure()
    error stop 1
  end subroutine
end program follow
