! Heat spreads in a plate that is cut into columns, one part for each process: simulation RANK RANKS
program simulation
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use tranship
  implicit none
  integer(int64), parameter :: side = 256, steps = 20
  real(real64), parameter :: patience = 30  ! seconds
  real(real64), allocatable :: plate(:, :)  ! this process's columns, and cells around them
  type(tranship_staging) :: staging
  integer(int64) :: rank, ranks, first, columns, left, right, step

  rank = argument(1)
  ranks = argument(2)
  first = side*rank/ranks
  columns = side*(rank + 1)/ranks - first
  left = merge(1, 0, rank > 0)  ! columns of neighbours
  right = merge(1, 0, rank < ranks - 1)

  allocate (plate(0:side + 1, 0:columns + 1))
  plate = 0
  plate(1, :) = 100
  call check(tranship_open('staging.contact', staging, patience))
  call put(0_int64)
  do step = 1, steps
    call check(tranship_get(staging, 'heat', step - 1, &  ! waits for neighbours
                            plate(1:side, 1 - left:columns + right), patience, &
                            lower=[0_int64, first - left]))
    call spread()
    call put(step)
  end do
  call check(tranship_close(staging))

contains

  subroutine put(version)
    integer(int64), intent(in) :: version
    call check(tranship_put(staging, 'heat', version, plate(1:side, 1:columns), patience, &
                            lower=[0_int64, first]))
  end subroutine

  ! No heat flows over the edges: a cell there is its own neighbour.
  subroutine spread()
    plate(0, :) = plate(1, :)
    plate(side + 1, :) = plate(side, :)
    if (left == 0) plate(:, 0) = plate(:, 1)
    if (right == 0) plate(:, columns + 1) = plate(:, columns)
    plate(1:side, 1:columns) = plate(1:side, 1:columns) + 0.2_real64*( &
                               plate(0:side - 1, 1:columns) + plate(2:side + 1, 1:columns) &
                               + plate(1:side, 0:columns - 1) + plate(1:side, 2:columns + 1) &
                               - 4*plate(1:side, 1:columns))
  end subroutine

  subroutine check(code)
    integer, intent(in) :: code
    if (code == TRANSHIP_OK) return
    write (error_unit, '(a)') tranship_last_failure()
    error stop 1
  end subroutine

  integer(int64) function argument(number)
    integer, intent(in) :: number
    character(20) :: text
    call get_command_argument(number, text)
    read (text, *) argument
  end function
end program simulation
