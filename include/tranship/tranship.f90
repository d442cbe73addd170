! The staging service from Fortran: the functions of staging.h, with Fortran's strings and arrays.
!
! Compile this file with the program (`tranship config --fortran` prints its path). Functions return
! TRANSHIP_OK or another code; tranship_last_error() returns the message and tranship_last_hint()
! what to do. Versions and indices that are passed are of kind int32 or int64; a timeout is a number
! of seconds, of any kind.
! docs/guides/c-and-fortran.md shows programs.
module tranship
  use, intrinsic :: iso_c_binding
  implicit none
  private

  public :: tranship_open, tranship_close, tranship_define, tranship_put, tranship_get
  public :: tranship_get_next, tranship_get_latest, tranship_wait_next, tranship_discard
  public :: tranship_describe, tranship_describe_version, tranship_wait_next_version
  public :: tranship_nothing
  public :: tranship_put_async, tranship_get_async, tranship_request_wait, tranship_request_test
  public :: tranship_request_free, tranship_last_error, tranship_last_failure, tranship_last_hint
  public :: tranship_box, tranship_array_of
  public :: tranship_step_begin, tranship_step_put, tranship_step_put_async, tranship_step_set
  public :: tranship_step_set_json, tranship_step_end, tranship_step_give_up, tranship_step_free
  public :: tranship_step_next, tranship_step_latest, tranship_step_find, tranship_step_discard
  public :: tranship_step_number, tranship_step_size, tranship_step_name, tranship_step_describe
  public :: tranship_step_get, tranship_step_attributes
  public :: tranship_attributes_of, tranship_attributes_free, tranship_attributes_size
  public :: tranship_attributes_name, tranship_attributes_get, tranship_attributes_json
  public :: tranship_set, tranship_set_json, tranship_unset

  enum, bind(c)
    enumerator :: TRANSHIP_OK = 0
    enumerator :: TRANSHIP_INVALID_ARGUMENT = 1
    enumerator :: TRANSHIP_NOT_FOUND = 2
    enumerator :: TRANSHIP_OUT_OF_RANGE = 3
    enumerator :: TRANSHIP_NO_ROUTE = 4
    enumerator :: TRANSHIP_UNSUPPORTED = 5
    enumerator :: TRANSHIP_OUT_OF_MEMORY = 6
    enumerator :: TRANSHIP_IO = 7
    enumerator :: TRANSHIP_PERMISSION = 8
    enumerator :: TRANSHIP_PEER_LOST = 9
    enumerator :: TRANSHIP_TIMEOUT = 10
    enumerator :: TRANSHIP_CANCELLED = 11
    enumerator :: TRANSHIP_CLOSED = 12
  end enum
  public :: TRANSHIP_OK, TRANSHIP_INVALID_ARGUMENT, TRANSHIP_NOT_FOUND, TRANSHIP_OUT_OF_RANGE
  public :: TRANSHIP_NO_ROUTE, TRANSHIP_UNSUPPORTED, TRANSHIP_OUT_OF_MEMORY, TRANSHIP_IO
  public :: TRANSHIP_PERMISSION, TRANSHIP_PEER_LOST, TRANSHIP_TIMEOUT, TRANSHIP_CANCELLED
  public :: TRANSHIP_CLOSED

  enum, bind(c)
    enumerator :: TRANSHIP_C_ORDER = 0
    enumerator :: TRANSHIP_FORTRAN_ORDER = 1
  end enum
  public :: TRANSHIP_C_ORDER, TRANSHIP_FORTRAN_ORDER

  integer, parameter, public :: TRANSHIP_RANK_MAX = 16
  integer(c_int64_t), parameter, public :: TRANSHIP_FIRST = -huge(0_c_int64_t)  ! below all versions

  ! An array and its box in a variable, as C has it. tranship_array_of() makes it.
  type, bind(c), public :: tranship_array
    type(c_ptr) :: data = c_null_ptr
    type(c_ptr) :: type = c_null_ptr
    integer(c_int) :: rank = 0
    integer(c_int) :: order = TRANSHIP_FORTRAN_ORDER
    integer(c_int64_t) :: extents(TRANSHIP_RANK_MAX) = 0
    integer(c_int64_t) :: strides(TRANSHIP_RANK_MAX) = 0
    integer(c_int64_t) :: lower(TRANSHIP_RANK_MAX) = 0
  end type

  ! A connection to a staging server.
  type, public :: tranship_staging
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! An asynchronous put or get.
  type, public :: tranship_request
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! This process's part of a step that is being written.
  type, public :: tranship_step_writer
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! A whole step that was found.
  type, public :: tranship_step
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! Attributes that were read.
  type, public :: tranship_attributes
    type(c_ptr) :: handle = c_null_ptr
    logical :: owned = .false.  ! and not part of a step
  end type

  ! Description of a variable; upper is one past its last indices.
  type, bind(c), public :: tranship_variable
    character(c_char) :: type(16)
    integer(c_int) :: rank
    integer(c_int) :: producers
    integer(c_int64_t) :: lower(TRANSHIP_RANK_MAX)
    integer(c_int64_t) :: upper(TRANSHIP_RANK_MAX)
  end type

  ! Element types, as C has them.
  character(c_char), target, save :: f4(3) = ['f', '4', c_null_char]
  character(c_char), target, save :: f8(3) = ['f', '8', c_null_char]
  character(c_char), target, save :: i4(3) = ['i', '4', c_null_char]
  character(c_char), target, save :: i8(3) = ['i', '8', c_null_char]
  character(c_char), target, save :: c8(3) = ['c', '8', c_null_char]
  character(c_char), target, save :: c16(4) = ['c', '1', '6', c_null_char]

  ! tranship_array_of(a, lower): describes an array, which must be a target. Its box begins at
  ! `lower`; absent: at 0 in every dimension. a(1,1) is at `lower`, a(2,1) one index further in the
  ! first dimension; the bounds with which `a` is declared play no part. Sections such as
  ! heat(1:n, 1:m), of up to seven dimensions, are not copied; an array of more dimensions must be
  ! contiguous. Elements are real, integer or complex, with parts of four or eight bytes.
  interface tranship_array_of
    procedure array_of_f4, array_of_f8, array_of_i4, array_of_i8, array_of_c8, array_of_c16
    procedure array_of_f4_4, array_of_f8_4, array_of_i4_4, array_of_i8_4
    procedure array_of_c8_4, array_of_c16_4
  end interface

  ! Versions and indices that are passed may be of four or of eight bytes. A version that a function
  ! returns is of kind int64.
  ! A function that is done with an array when it returns takes what tranship_array_of() makes, or
  ! the array itself, which need not be a target: tranship_put(staging, 'heat', 3, a, 30, lower=[0])
  ! puts it as the box that begins at `lower`.
  interface tranship_put
    procedure put_8, put_4
    procedure put_f4_8, put_f8_8, put_i4_8, put_i8_8, put_c8_8, put_c16_8
    procedure put_f4_4, put_f8_4, put_i4_4, put_i8_4, put_c8_4, put_c16_4
  end interface
  interface tranship_get
    procedure get_8, get_4
    procedure get_f4_8, get_f8_8, get_i4_8, get_i8_8, get_c8_8, get_c16_8
    procedure get_f4_4, get_f8_4, get_i4_4, get_i8_4, get_c8_4, get_c16_4
  end interface
  interface tranship_get_next
    procedure get_next_8, get_next_4
    procedure get_next_f4_8, get_next_f8_8, get_next_i4_8, get_next_i8_8
    procedure get_next_c8_8, get_next_c16_8
    procedure get_next_f4_4, get_next_f8_4, get_next_i4_4, get_next_i8_4
    procedure get_next_c8_4, get_next_c16_4
  end interface
  interface tranship_get_latest
    procedure get_latest_box
    procedure get_latest_f4, get_latest_f8, get_latest_i4, get_latest_i8
    procedure get_latest_c8, get_latest_c16
  end interface
  interface tranship_wait_next
    procedure wait_next_8, wait_next_4
  end interface
  interface tranship_discard
    procedure discard_8, discard_4
  end interface
  interface tranship_put_async
    procedure put_async_8, put_async_4
  end interface
  interface tranship_get_async
    procedure get_async_8, get_async_4
  end interface
  interface tranship_step_begin
    procedure step_begin_8, step_begin_4
  end interface
  interface tranship_step_put
    procedure step_put_box
    procedure step_put_f4, step_put_f8, step_put_i4, step_put_i8, step_put_c8, step_put_c16
  end interface
  interface tranship_step_set
    procedure step_set_double, step_set_float, step_set_int64, step_set_int32, step_set_text
  end interface
  interface tranship_step_free
    procedure free_writer, free_step
  end interface
  interface tranship_step_next
    procedure step_next_8, step_next_4
  end interface
  interface tranship_step_find
    procedure step_find_8, step_find_4
  end interface
  interface tranship_step_discard
    procedure step_discard_8, step_discard_4
  end interface
  interface tranship_step_get
    procedure step_get_box
    procedure step_get_f4, step_get_f8, step_get_i4, step_get_i8, step_get_c8, step_get_c16
  end interface
  interface tranship_attributes_free
    procedure free_attributes
  end interface
  interface tranship_attributes_get
    procedure get_double, get_int64, get_text
  end interface
  interface tranship_set
    procedure set_double, set_float, set_int64, set_int32, set_text
  end interface
  interface tranship_box
    procedure box_8, box_4
  end interface

  include 'fortran/c_staging.inc'
  include 'fortran/c_steps.inc'

contains

  ! Connects to a server; waits until the server is there. `contact`: the file that it writes, or
  ! host:port; `name`: client name, which appears in the server's messages.
  function tranship_open(contact, staging, timeout, name) result(code)
    character(*), intent(in) :: contact
    type(tranship_staging), intent(out) :: staging
    class(*), intent(in) :: timeout
    character(*), intent(in), optional :: name
    integer :: code
    character(:, c_char), allocatable, target :: own
    type(c_ptr) :: own_place
    own_place = c_null_ptr
    if (present(name)) then
      own = trim(name)//c_null_char
      own_place = c_loc(own)
    end if
    code = c_open(trim(contact)//c_null_char, own_place, seconds(timeout), staging%handle)
  end function

  ! Waits for asynchronous puts, declares that this client puts nothing more, and disconnects.
  function tranship_close(staging) result(code)
    type(tranship_staging), intent(inout) :: staging
    integer :: code
    code = c_close(staging%handle)
    staging%handle = c_null_ptr
  end function

  ! Puts an array as a box of a variable. When it returns, every client sees the whole box.
  function put_8(staging, variable, version, array, timeout) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int64_t), intent(in) :: version
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    integer :: code
    code = c_put(staging%handle, trim(variable)//c_null_char, version, array, seconds(timeout))
  end function

  ! Waits until the whole box has been put at this version, and writes it into the array.
  function get_8(staging, variable, version, array, timeout) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int64_t), intent(in) :: version
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    integer :: code
    code = c_get(staging%handle, trim(variable)//c_null_char, version, array, seconds(timeout))
  end function

  ! Does the same with the lowest version above `after`; TRANSHIP_FIRST: the lowest of all.
  function get_next_8(staging, variable, after, array, timeout, version) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int64_t), intent(in) :: after
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    integer(c_int64_t), intent(out) :: version
    integer :: code
    code = c_get_next(staging%handle, trim(variable)//c_null_char, after, array, &
      seconds(timeout), version)
  end function

  ! Does the same with the highest version that covers the box.
  function get_latest_box(staging, variable, array, timeout, version) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    integer(c_int64_t), intent(out) :: version
    integer :: code
    code = c_get_latest(staging%handle, trim(variable)//c_null_char, array, &
      seconds(timeout), version)
  end function

  ! Waits as tranship_get_next does, and moves nothing; `array` may be a tranship_box().
  function wait_next_8(staging, variable, after, array, timeout, version) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int64_t), intent(in) :: after
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    integer(c_int64_t), intent(out) :: version
    integer :: code
    code = c_wait_next(staging%handle, trim(variable)//c_null_char, after, array, &
      seconds(timeout), version)
  end function

  ! Defines a variable: its element type, such as 'f8', its domain, a tranship_box(), and the number
  ! of processes that will put to it, 0 if that is not known.
  function tranship_define(staging, variable, type, domain, writers) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable, type
    type(tranship_array), intent(in) :: domain
    integer, intent(in) :: writers
    integer :: code
    code = c_define(staging%handle, trim(variable)//c_null_char, trim(type)//c_null_char, domain, &
        writers)
  end function

  ! Discards a version. Gets that are reading it are not disturbed.
  function discard_8(staging, variable, version) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int64_t), intent(in) :: version
    integer :: code
    code = c_discard(staging%handle, trim(variable)//c_null_char, version)
  end function

  ! Waits until a box has been put to the variable, and describes the variable.
  function tranship_describe(staging, name, timeout, variable) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: name
    class(*), intent(in) :: timeout
    type(tranship_variable), intent(out) :: variable
    integer :: code
    code = c_describe(staging%handle, trim(name)//c_null_char, seconds(timeout), variable)
  end function

  ! Does the same for one version: the box around what was put to it. More may still come.
  function tranship_describe_version(staging, name, version, timeout, variable) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: version
    real(c_double), intent(in) :: timeout
    type(tranship_variable), intent(out) :: variable
    integer :: code
    code = c_describe_version(staging%handle, trim(name)//c_null_char, version, timeout, variable)
  end function

  ! Waits for the lowest version above `after` that is whole by its own bounds, and returns both.
  function tranship_wait_next_version(staging, name, after, timeout, version, variable) &
      result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: after
    real(c_double), intent(in) :: timeout
    integer(c_int64_t), intent(out) :: version
    type(tranship_variable), intent(out) :: variable
    integer :: code
    code = c_wait_next_version(staging%handle, trim(name)//c_null_char, after, timeout, version, &
      variable)
  end function

  ! Says that this process has nothing in a version of a variable, which need not exist yet.
  function tranship_nothing(staging, variable, version) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int64_t), intent(in) :: version
    integer :: code
    code = c_nothing(staging%handle, trim(variable)//c_null_char, version)
  end function

  ! Starts a put, as tranship_put. The array must stay until the request has ended.
  function put_async_8(staging, variable, version, array, timeout, request) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int64_t), intent(in) :: version
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    type(tranship_request), intent(out) :: request
    integer :: code
    code = c_put_async(staging%handle, trim(variable)//c_null_char, version, array, &
      seconds(timeout), request%handle)
  end function

  ! Starts a get, as tranship_get. The array must stay until the request has ended.
  function get_async_8(staging, variable, version, array, timeout, request) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int64_t), intent(in) :: version
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    type(tranship_request), intent(out) :: request
    integer :: code
    code = c_get_async(staging%handle, trim(variable)//c_null_char, version, array, &
      seconds(timeout), request%handle)
  end function

  ! Waits for the end, and returns what the put or get returned; TRANSHIP_TIMEOUT also if it has not
  ! ended within `timeout`.
  function tranship_request_wait(request, timeout) result(code)
    type(tranship_request), intent(in) :: request
    class(*), intent(in) :: timeout
    integer :: code
    code = c_request_wait(request%handle, seconds(timeout))
  end function

  ! Sets `ended` to whether the request has ended. Returns at once.
  function tranship_request_test(request, ended) result(code)
    type(tranship_request), intent(in) :: request
    logical, intent(out) :: ended
    integer :: code
    integer(c_int) :: number
    number = 0
    code = c_request_test(request%handle, number)
    ended = number /= 0
  end function

  ! Waits for the end, and frees the request.
  subroutine tranship_request_free(request)
    type(tranship_request), intent(inout) :: request
    call c_request_free(request%handle)
    request%handle = c_null_ptr
  end subroutine

  ! Returns what went wrong in this thread's last call that failed.
  function tranship_last_error() result(text)
    character(:), allocatable :: text
    text = text_at(c_last_error())
  end function

  ! Returns what to do about it; empty if there is nothing to say.
  function tranship_last_hint() result(text)
    character(:), allocatable :: text
    text = text_at(c_last_hint())
  end function

  ! Returns a string of C as one of Fortran.
  function text_at(found) result(text)
    type(c_ptr), intent(in) :: found
    character(:), allocatable :: text
    character(c_char), pointer :: letters(:)
    integer :: k
    call c_f_pointer(found, letters, [c_strlen(found)])
    allocate (character(size(letters)) :: text)
    do k = 1, size(letters)
      text(k:k) = letters(k)
    end do
  end function

  ! Returns a box without an array, for tranship_wait_next and tranship_define.
  function box_8(extents, lower) result(box)
    integer(c_int64_t), intent(in) :: extents(:)
    integer(c_int64_t), intent(in), optional :: lower(:)
    type(tranship_array) :: box
    integer :: rank
    rank = size(extents)
    box%rank = rank
    if (rank > TRANSHIP_RANK_MAX) return  ! C refuses the rank
    box%extents(:rank) = extents
    if (.not. present(lower)) return
    if (size(lower) /= rank) box%rank = -1  ! and this one
    if (size(lower) == rank) box%lower(:rank) = lower
  end function

  include 'fortran/arrays.inc'
  include 'fortran/steps.inc'

  ! The same with versions and indices of four bytes.

  function put_4(staging, variable, version, array, timeout) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int32_t), intent(in) :: version
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    integer :: code
    code = put_8(staging, variable, int(version, c_int64_t), array, timeout)
  end function

  function get_4(staging, variable, version, array, timeout) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int32_t), intent(in) :: version
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    integer :: code
    code = get_8(staging, variable, int(version, c_int64_t), array, timeout)
  end function

  function get_next_4(staging, variable, after, array, timeout, version) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int32_t), intent(in) :: after
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    integer(c_int64_t), intent(out) :: version
    integer :: code
    code = get_next_8(staging, variable, int(after, c_int64_t), array, timeout, version)
  end function

  function wait_next_4(staging, variable, after, array, timeout, version) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int32_t), intent(in) :: after
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    integer(c_int64_t), intent(out) :: version
    integer :: code
    code = wait_next_8(staging, variable, int(after, c_int64_t), array, timeout, version)
  end function

  function discard_4(staging, variable, version) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int32_t), intent(in) :: version
    integer :: code
    code = discard_8(staging, variable, int(version, c_int64_t))
  end function

  function put_async_4(staging, variable, version, array, timeout, request) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int32_t), intent(in) :: version
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    type(tranship_request), intent(out) :: request
    integer :: code
    code = put_async_8(staging, variable, int(version, c_int64_t), array, timeout, request)
  end function

  function get_async_4(staging, variable, version, array, timeout, request) result(code)
    type(tranship_staging), intent(in) :: staging
    character(*), intent(in) :: variable
    integer(c_int32_t), intent(in) :: version
    type(tranship_array), intent(in) :: array
    class(*), intent(in) :: timeout
    type(tranship_request), intent(out) :: request
    integer :: code
    code = get_async_8(staging, variable, int(version, c_int64_t), array, timeout, request)
  end function

  function box_4(extents, lower) result(box)
    integer(c_int32_t), intent(in) :: extents(:)
    integer(c_int32_t), intent(in), optional :: lower(:)
    type(tranship_array) :: box
    if (present(lower)) box = box_8(int(extents, c_int64_t), int(lower, c_int64_t))
    if (.not. present(lower)) box = box_8(int(extents, c_int64_t))
  end function

  ! Returns a timeout as C has it. What is no number is less than nothing, which C refuses.
  function seconds(timeout)
    class(*), intent(in) :: timeout
    real(c_double) :: seconds
    seconds = -1
    select type (timeout)
    type is (real(c_double))
      seconds = timeout
    type is (real(c_float))
      seconds = timeout
    type is (integer(c_int32_t))
      seconds = timeout
    type is (integer(c_int64_t))
      seconds = real(timeout, c_double)
    end select
  end function

  ! Returns one line to print: what went wrong in this thread's last call that failed and, if there
  ! is something to say, what to do about it.
  function tranship_last_failure() result(text)
    character(:), allocatable :: text
    text = tranship_last_error()
    if (len(tranship_last_hint()) > 0) text = text//'; '//tranship_last_hint()
  end function

end module tranship
