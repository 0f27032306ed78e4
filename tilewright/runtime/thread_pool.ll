; The thread pool of the CPU back end. thread_pool.py starts its threads; kernels call @tilewright_parallel_for.
;
; One loop at a time is run by all threads. Its iterations are cut into chunks, and each thread has a share of them, the
; same in every loop of that extent: so it finds in its cache what it stored there in the loop before. A thread that has
; no chunk left takes those of the next threads, so a late thread holds nobody up.
;
; The chunks of a share are claimed one by one from its ticket: the loop's number in the high half, the chunks not yet
; claimed in the low one. A claim is one compare-and-swap of both, so a thread that comes late finds another number, or
; nothing left, and touches nothing. Whoever has claimed a chunk may read the description of the loop: the loop is not
; over before that chunk is. A thread reports the chunks of one share together.
;
; A loop is run by as many threads as its work is worth. The caller measures the cycles that an iteration takes, and the
; next run of the loop is judged by them: a thread that sleeps is woken only if there are @spin_cycles of work for each
; thread, a loop shorter than dealing it out runs in the caller alone, and chunks are no shorter than @chunk_cycles. A loop
; that runs for the first time wakes all threads. The measured cycles at most double from one run to the next, so a
; caller that was interrupted wakes few threads in vain.
;
; Threads wait by spinning for @spin_cycles, then in the kernel (futex). Who wakes others first changes what they
; wait on and then looks whether they sleep; who goes to sleep first says so and then looks again (in the kernel).
; All of that is sequentially consistent, so no wake-up is lost.

%Pool = type {
  i32, [31 x i32],                 ; 0  started: threads that have a share  (each group has two cache lines to itself)
  i32, [31 x i32],                 ; 2  pending: chunks of this loop that are not finished
  i32, i32, [30 x i32],            ; 4  number of the latest loop; 5 how many threads sleep, waiting for the next
  i32, i32, [30 x i32],            ; 7  busy: a loop is being run; 8 whether its caller sleeps
  i32, i32, [30 x i32],            ; 10 threads, beside the caller; 11 whether they are to end
  ptr, ptr, i64, i64, i64, i32,    ; 13 body, 14 closure, 15 extent, 16 size of a chunk, 17 chunks, 18 error
  i64                              ; 19 woken: threads that callers have woken so far
}
; Behind it, from byte COSTS_AT on, 64 costs of loops by the address of their body, which only the caller of a loop uses;
; from byte TICKETS_AT on, the tickets of the shares, 128 bytes apart: the caller's, then those of the threads.

%Cost = type { ptr, double }       ; 0 body, 1 cycles of an iteration

; A pool whose threads are those of another library's OpenMP, by the addresses of functions that it has loaded.
%Team = type {
  ptr, i64,                        ; 0 pool, 1 the most threads that it has shares for
  ptr, ptr, ptr, ptr               ; 2 GOMP_parallel, 3 omp_get_thread_num, 4 number of threads, 5 omp_in_parallel
}

@tilewright_pool = global ptr null, align 8
@tilewright_team = global %Team zeroinitializer, align 8
@spin_cycles = internal constant i64 SPIN_CYCLES
@chunk_cycles = internal constant i64 CHUNK_CYCLES
@deal_cycles = internal constant i64 DEAL_CYCLES

declare i64 @syscall(i64, ...)
declare i32 @sched_yield()
declare i64 @llvm.readcyclecounter()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare double @llvm.minnum.f64(double, double)

define internal void @futex_wait(ptr %word, i32 %while) nounwind {
  %ignored = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 128, i32 %while, ptr null, ptr null, i32 0)
  ret void
}

define internal void @futex_wake(ptr %word, i32 %most) nounwind {
  %ignored = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 129, i32 %most, ptr null, ptr null, i32 0)
  ret void
}

; Spin until the word is (or is no longer) `value`, or for as long as is worth it. Gives the word.
define internal i32 @spin(ptr %word, i32 %value, i1 %until_equal) nounwind {
entry:
  %began = call i64 @llvm.readcyclecounter()
  %budget = load i64, ptr @spin_cycles
  br label %look
look:
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %value
  %come = icmp eq i1 %same, %until_equal
  br i1 %come, label %done, label %rest
rest:
  call void asm sideeffect "PAUSE", "~{memory}"()
  %time = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %time, %began
  %over = icmp ugt i64 %spent, %budget
  br i1 %over, label %done, label %look
done:
  ret i32 %now
}

; The ticket of a share.
define internal ptr @ticket(ptr %pool, i64 %share) nounwind {
  %lines = shl i64 %share, 7
  %offset = add i64 %lines, TICKETS_AT
  %at = getelementptr i8, ptr %pool, i64 %offset
  ret ptr %at
}

; How many threads run a loop, the caller included.
define internal i64 @threads(ptr %pool) nounwind {
  %workers.at = getelementptr %Pool, ptr %pool, i32 0, i32 10
  %workers = load i32, ptr %workers.at
  %threads = add i32 %workers, 1
  %wide = zext i32 %threads to i64
  ret i64 %wide
}

; The first chunk of a share.
define internal i64 @first(i64 %share, i64 %chunks, i64 %threads) nounwind {
  %scaled = mul i64 %share, %chunks
  %first = udiv i64 %scaled, %threads
  ret i64 %first
}

; Where the cost of a loop with that body stands, if it is known.
define internal ptr @cost_of(ptr %pool, ptr %body) nounwind {
  %address = ptrtoint ptr %body to i64
  %mixed = mul i64 %address, -7046029254386353131
  %slot = lshr i64 %mixed, 58
  %bytes = shl i64 %slot, 4
  %offset = add i64 %bytes, COSTS_AT
  %at = getelementptr i8, ptr %pool, i64 %offset
  ret ptr %at
}

; The cycles that a loop takes in one thread, judged by its last run; very many where it is not known.
define internal double @total_cycles(ptr %pool, ptr %body, i64 %extent) nounwind {
entry:
  %at = call ptr @cost_of(ptr %pool, ptr %body)
  %whose = load ptr, ptr %at
  %known = icmp eq ptr %whose, %body
  br i1 %known, label %judge, label %unknown
judge:
  %cost.at = getelementptr %Cost, ptr %at, i32 0, i32 1
  %cost = load double, ptr %cost.at
  %times = sitofp i64 %extent to double
  %product = fmul double %cost, %times
  %total = call double @llvm.minnum.f64(double %product, double 1.0e18)
  ret double %total
unknown:
  ret double 1.0e18
}

; Remember that so many iterations took so many cycles in one thread.
define internal void @remember(ptr %pool, ptr %body, i64 %iterations, i64 %cycles) nounwind {
entry:
  %some = icmp sgt i64 %iterations, 0
  br i1 %some, label %measured, label %done
measured:
  %at = call ptr @cost_of(ptr %pool, ptr %body)
  %cost.at = getelementptr %Cost, ptr %at, i32 0, i32 1
  %spent = sitofp i64 %cycles to double
  %times = sitofp i64 %iterations to double
  %now = fdiv double %spent, %times
  %whose = load ptr, ptr %at
  %known = icmp eq ptr %whose, %body
  %before = load double, ptr %cost.at
  %twice = fmul double %before, 2.0
  %limited = call double @llvm.minnum.f64(double %now, double %twice)
  %cost = select i1 %known, double %limited, double %now
  store ptr %body, ptr %at
  store double %cost, ptr %cost.at
  br label %done
done:
  ret void
}

; Claim chunks of loop `%number` and run them, those of share `%own` first, until there are none. Gives how many
; iterations that were.
define internal i64 @work(ptr %pool, i32 %number, i64 %own) nounwind {
entry:
  %pending = getelementptr %Pool, ptr %pool, i32 0, i32 2
  %sleeps = getelementptr %Pool, ptr %pool, i32 0, i32 8
  %body.at = getelementptr %Pool, ptr %pool, i32 0, i32 13
  %closure.at = getelementptr %Pool, ptr %pool, i32 0, i32 14
  %extent.at = getelementptr %Pool, ptr %pool, i32 0, i32 15
  %size.at = getelementptr %Pool, ptr %pool, i32 0, i32 16
  %chunks.at = getelementptr %Pool, ptr %pool, i32 0, i32 17
  %error.at = getelementptr %Pool, ptr %pool, i32 0, i32 18
  %threads = call i64 @threads(ptr %pool)
  br label %visit
visit:
  %share = phi i64 [ %own, %entry ], [ %next, %further ]
  %visited = phi i64 [ 1, %entry ], [ %visited.more, %further ]
  %earlier = phi i64 [ 0, %entry ], [ %did, %further ]
  %ticket.at = call ptr @ticket(ptr %pool, i64 %share)
  %behind = add i64 %share, 1
  br label %look
look:
  %finished = phi i32 [ 0, %visit ], [ %finished, %claim ], [ %finished.more, %ran ]
  %did = phi i64 [ %earlier, %visit ], [ %did, %claim ], [ %did.more, %ran ]
  %ticket = load atomic i64, ptr %ticket.at seq_cst, align 8
  %high = lshr i64 %ticket, 32
  %whose = trunc i64 %high to i32
  %left = and i64 %ticket, 4294967295
  %ours = icmp eq i32 %whose, %number
  %some = icmp ne i64 %left, 0
  %go = and i1 %ours, %some
  br i1 %go, label %claim, label %report
claim:
  %taken = sub i64 %ticket, 1
  %swap = cmpxchg ptr %ticket.at, i64 %ticket, i64 %taken seq_cst seq_cst
  %claimed = extractvalue { i64, i1 } %swap, 1
  br i1 %claimed, label %run, label %look
run:
  %body = load ptr, ptr %body.at
  %closure = load ptr, ptr %closure.at
  %extent = load i64, ptr %extent.at
  %size = load i64, ptr %size.at
  %chunks = load i64, ptr %chunks.at
  %over = call i64 @first(i64 %behind, i64 %chunks, i64 %threads)
  %chunk = sub i64 %over, %left
  %begin = mul i64 %chunk, %size
  %full = add i64 %begin, %size
  %end = call i64 @llvm.smin.i64(i64 %full, i64 %extent)
  %status = call i32 %body(ptr %closure, i64 %begin, i64 %end)
  %finished.more = add i32 %finished, 1
  %iterations = sub i64 %end, %begin
  %did.more = add i64 %did, %iterations
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %ran
failed:
  %all = atomicrmw or ptr %error.at, i32 %status seq_cst
  br label %ran
ran:
  br label %look
report:
  %none = icmp eq i32 %finished, 0
  br i1 %none, label %move, label %subtract
subtract:
  %before = atomicrmw sub ptr %pending, i32 %finished seq_cst
  %last = icmp eq i32 %before, %finished
  br i1 %last, label %complete, label %move
complete:
  %sleeping = load atomic i32, ptr %sleeps seq_cst, align 4
  %wake = icmp ne i32 %sleeping, 0
  br i1 %wake, label %wake.caller, label %done
wake.caller:
  call void @futex_wake(ptr %pending, i32 2147483647)
  br label %done
move:
  ; A ticket of another loop: this one is over.
  %seen.all = icmp uge i64 %visited, %threads
  %current = xor i1 %ours, true
  %stop = or i1 %seen.all, %current
  br i1 %stop, label %done, label %further
further:
  %visited.more = add i64 %visited, 1
  %wrapped = icmp eq i64 %behind, %threads
  %next = select i1 %wrapped, i64 0, i64 %behind
  br label %visit
done:
  ret i64 %did
}

; What each thread of the pool runs.
define ptr @tilewright_worker(ptr %pool) nounwind {
entry:
  %number.at = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %sleepers = getelementptr %Pool, ptr %pool, i32 0, i32 5
  %ending = getelementptr %Pool, ptr %pool, i32 0, i32 11
  %earlier = atomicrmw add ptr %pool, i32 1 seq_cst
  %index = add i32 %earlier, 1
  %own = zext i32 %index to i64
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %seen, %slept ], [ %number, %did ]
  %spun = call i32 @spin(ptr %number.at, i32 %seen, i1 false)
  %new = icmp ne i32 %spun, %seen
  br i1 %new, label %woken, label %sleep
sleep:
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @futex_wait(ptr %number.at, i32 %seen)
  %less = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %slept
slept:
  %found = load atomic i32, ptr %number.at seq_cst, align 4
  %another = icmp ne i32 %found, %seen
  br i1 %another, label %woken, label %wait
woken:
  %number = phi i32 [ %spun, %wait ], [ %found, %slept ]
  %end = load atomic i32, ptr %ending seq_cst, align 4
  %ends = icmp ne i32 %end, 0
  br i1 %ends, label %over, label %did
did:
  %ignored = call i64 @work(ptr %pool, i32 %number, i64 %own)
  br label %wait
over:
  ret ptr null
}

; Run the iterations 0 to `extent` of a loop by calls of `body(closure, begin, end)`; gives what the calls gave, or-ed.
; The caller runs all of it by itself where there is no pool, or the pool is busy: with the loop around this one,
; or with that of another caller.
define i32 @tilewright_parallel_for(ptr %body, ptr %closure, i64 %extent) nounwind {
  %pool = load atomic ptr, ptr @tilewright_pool seq_cst, align 8
  %status = call i32 @run_loop(ptr %pool, ptr %body, ptr %closure, i64 %extent, i1 false, i1 false)
  ret i32 %status
}

; The same on the threads of another library: as many as the caller's loops have there. Within a loop of that library it
; is the caller alone; in a fork, where those threads are not, our own threads.
define i32 @tilewright_parallel_for_by_team(ptr %body, ptr %closure, i64 %extent) nounwind {
entry:
  %in.parallel.at = getelementptr %Team, ptr @tilewright_team, i32 0, i32 5
  %in.parallel = load ptr, ptr %in.parallel.at
  %inside = call i32 %in.parallel()
  %nested = icmp ne i32 %inside, 0
  %threads = call i64 @team_threads()
  %one = icmp eq i64 %threads, 1
  %alone = or i1 %nested, %one
  %team.pool = load atomic ptr, ptr @tilewright_team seq_cst, align 8
  %forked = icmp eq ptr %team.pool, null
  %own.pool = load atomic ptr, ptr @tilewright_pool seq_cst, align 8
  %some.pool = select i1 %forked, ptr %own.pool, ptr %team.pool
  %pool = select i1 %alone, ptr null, ptr %some.pool
  %team = xor i1 %forked, true
  %status = call i32 @run_loop(ptr %pool, ptr %body, ptr %closure, i64 %extent, i1 false, i1 %team)
  ret i32 %status
}

; As many threads as a loop of the caller has in the other library, and no more than there are shares for.
define internal i64 @team_threads() nounwind {
  %threads.at = getelementptr %Team, ptr @tilewright_team, i32 0, i32 4
  %threads = load ptr, ptr %threads.at
  %asked = call i32 %threads()
  %wide = sext i32 %asked to i64
  %most.at = getelementptr %Team, ptr @tilewright_team, i32 0, i32 1
  %most = load i64, ptr %most.at
  %number = call i64 @llvm.smin.i64(i64 %wide, i64 %most)
  %some = call i64 @llvm.smax.i64(i64 %number, i64 1)
  ret i64 %some
}

; What each thread of the other library runs.
define internal void @team_worker(ptr %pool) nounwind {
entry:
  %thread.at = getelementptr %Team, ptr @tilewright_team, i32 0, i32 3
  %thread = load ptr, ptr %thread.at
  %index = call i32 %thread()
  %own = zext i32 %index to i64
  %number.at = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %number = load atomic i32, ptr %number.at seq_cst, align 4
  %began = call i64 @llvm.readcyclecounter()
  %iterations = call i64 @work(ptr %pool, i32 %number, i64 %own)
  %ended = call i64 @llvm.readcyclecounter()
  %caller = icmp eq i32 %index, 0
  br i1 %caller, label %measured, label %done
measured:
  %cycles = sub i64 %ended, %began
  %body.at = getelementptr %Pool, ptr %pool, i32 0, i32 13
  %body = load ptr, ptr %body.at
  call void @remember(ptr %pool, ptr %body, i64 %iterations, i64 %cycles)
  br label %done
done:
  ret void
}

; Run a loop on the threads of a pool, or in the caller alone. With `%all`, every thread is woken, however short the
; loop; with `%team`, the threads are those of the other library.
define internal i32 @run_loop(ptr %pool, ptr %body, ptr %closure, i64 %extent, i1 %all, i1 %team) nounwind {
entry:
  %none = icmp eq ptr %pool, null
  %few = icmp slt i64 %extent, 2
  %alone = or i1 %none, %few
  br i1 %alone, label %by.itself, label %try
try:
  %busy = getelementptr %Pool, ptr %pool, i32 0, i32 7
  %swap = cmpxchg ptr %busy, i32 0, i32 1 seq_cst seq_cst
  %ours = extractvalue { i32, i1 } %swap, 1
  br i1 %ours, label %judge, label %by.itself
by.itself:
  %some = icmp sgt i64 %extent, 0
  br i1 %some, label %whole, label %nothing
whole:
  %status = call i32 %body(ptr %closure, i64 0, i64 %extent)
  ret i32 %status
nothing:
  ret i32 0
judge:
  br i1 %team, label %ask, label %count
ask:
  %asked = call i64 @team_threads()
  %beside = sub i64 %asked, 1
  %beside.narrow = trunc i64 %beside to i32
  %workers.at = getelementptr %Pool, ptr %pool, i32 0, i32 10
  store i32 %beside.narrow, ptr %workers.at
  br label %count
count:
  %threads = call i64 @threads(ptr %pool)
  %sleepers.at = getelementptr %Pool, ptr %pool, i32 0, i32 5
  %judged = call double @total_cycles(ptr %pool, ptr %body, i64 %extent)
  %total.fp = select i1 %all, double 1.0e18, double %judged
  %total = fptosi double %total.fp to i64
  %spin = load i64, ptr @spin_cycles
  %worth = udiv i64 %total, %spin
  %asleep.before = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep.wide = zext i32 %asleep.before to i64
  %awake.before = sub i64 %threads, %asleep.wide
  %others = icmp sgt i64 %awake.before, 1
  %wakes = icmp sgt i64 %worth, 1
  %some.help = or i1 %others, %wakes
  %helped = or i1 %some.help, %team
  %deal.each = load i64, ptr @deal_cycles
  %dealing = mul i64 %threads, %deal.each
  %long = icmp sgt i64 %total, %dealing
  %shared = and i1 %helped, %long
  br i1 %shared, label %deal.out, label %short
short:
  %began.alone = call i64 @llvm.readcyclecounter()
  %status.alone = call i32 %body(ptr %closure, i64 0, i64 %extent)
  %ended.alone = call i64 @llvm.readcyclecounter()
  %cycles.alone = sub i64 %ended.alone, %began.alone
  call void @remember(ptr %pool, ptr %body, i64 %extent, i64 %cycles.alone)
  store atomic i32 0, ptr %busy seq_cst, align 4
  ret i32 %status.alone
deal.out:
  ; Up to sixteen chunks per thread: a claim of one's own share costs nothing, and what is left over at the end is short.
  %chunk.least = load i64, ptr @chunk_cycles
  %least = mul i64 %threads, %chunk.least
  %each.fine = udiv i64 %total, %least
  %each.some = call i64 @llvm.smax.i64(i64 %each.fine, i64 1)
  %each = call i64 @llvm.smin.i64(i64 %each.some, i64 16)
  %most = mul i64 %threads, %each
  %wanted = call i64 @llvm.smin.i64(i64 %extent, i64 %most)
  %extent.up = add i64 %extent, %wanted
  %extent.up1 = sub i64 %extent.up, 1
  %size = sdiv i64 %extent.up1, %wanted
  %covered = add i64 %extent, %size
  %covered1 = sub i64 %covered, 1
  %chunks = sdiv i64 %covered1, %size
  %body.at = getelementptr %Pool, ptr %pool, i32 0, i32 13
  %closure.at = getelementptr %Pool, ptr %pool, i32 0, i32 14
  %extent.at = getelementptr %Pool, ptr %pool, i32 0, i32 15
  %size.at = getelementptr %Pool, ptr %pool, i32 0, i32 16
  %chunks.at = getelementptr %Pool, ptr %pool, i32 0, i32 17
  %error.at = getelementptr %Pool, ptr %pool, i32 0, i32 18
  store ptr %body, ptr %body.at
  store ptr %closure, ptr %closure.at
  store i64 %extent, ptr %extent.at
  store i64 %size, ptr %size.at
  store i64 %chunks, ptr %chunks.at
  store i32 0, ptr %error.at
  %pending = getelementptr %Pool, ptr %pool, i32 0, i32 2
  %chunks.narrow = trunc i64 %chunks to i32
  store atomic i32 %chunks.narrow, ptr %pending seq_cst, align 4
  %number.at = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %latest = load atomic i32, ptr %number.at seq_cst, align 4
  %number = add i32 %latest, 1
  %number.wide = zext i32 %number to i64
  %high = shl i64 %number.wide, 32
  br label %deal
deal:
  %share = phi i64 [ 0, %deal.out ], [ %behind, %deal ]
  %behind = add i64 %share, 1
  %from = call i64 @first(i64 %share, i64 %chunks, i64 %threads)
  %to = call i64 @first(i64 %behind, i64 %chunks, i64 %threads)
  %own = sub i64 %to, %from
  %ticket = or i64 %high, %own
  %ticket.at = call ptr @ticket(ptr %pool, i64 %share)
  store atomic i64 %ticket, ptr %ticket.at release, align 8
  %dealt = icmp eq i64 %behind, %threads
  br i1 %dealt, label %publish, label %deal
publish:
  store atomic i32 %number, ptr %number.at seq_cst, align 4
  br i1 %team, label %together, label %count.sleepers
together:
  %parallel.at = getelementptr %Team, ptr @tilewright_team, i32 0, i32 2
  %parallel = load ptr, ptr %parallel.at
  %threads.narrow = trunc i64 %threads to i32
  call void %parallel(ptr @team_worker, ptr %pool, i32 %threads.narrow, i32 0)
  br label %leave
count.sleepers:
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %sleepers.wide = zext i32 %sleepers to i64
  %awake = sub i64 %threads, %sleepers.wide
  %lacking = sub i64 %worth, %awake
  %called = call i64 @llvm.smin.i64(i64 %lacking, i64 %sleepers.wide)
  %asleep = icmp sgt i64 %called, 0
  br i1 %asleep, label %wake, label %join
wake:
  %woken.at = getelementptr %Pool, ptr %pool, i32 0, i32 19
  %woken = load atomic i64, ptr %woken.at monotonic, align 8
  %woken.more = add i64 %woken, %called
  store atomic i64 %woken.more, ptr %woken.at monotonic, align 8
  %called.narrow = trunc i64 %called to i32
  call void @futex_wake(ptr %number.at, i32 %called.narrow)
  br label %join
join:
  %began = call i64 @llvm.readcyclecounter()
  %iterations = call i64 @work(ptr %pool, i32 %number, i64 0)
  %ended = call i64 @llvm.readcyclecounter()
  %cycles = sub i64 %ended, %began
  call void @remember(ptr %pool, ptr %body, i64 %iterations, i64 %cycles)
  %sleeps = getelementptr %Pool, ptr %pool, i32 0, i32 8
  %spun = call i32 @spin(ptr %pending, i32 0, i1 true)
  br label %check
check:
  %rest = phi i32 [ %spun, %join ], [ %again, %sleep ]
  %done = icmp eq i32 %rest, 0
  br i1 %done, label %leave, label %sleep
sleep:
  store atomic i32 1, ptr %sleeps seq_cst, align 4
  %now = load atomic i32, ptr %pending seq_cst, align 4
  call void @futex_wait.unless.zero(ptr %pending, i32 %now)
  store atomic i32 0, ptr %sleeps seq_cst, align 4
  %again = load atomic i32, ptr %pending seq_cst, align 4
  br label %check
leave:
  %error = load atomic i32, ptr %error.at seq_cst, align 4
  store atomic i32 0, ptr %busy seq_cst, align 4
  ret i32 %error
}

; Tasks: every thread runs a body once. As many chunks as there are threads are claimed one by one, and who waits at a
; barrier claims no other; so each has a thread of its own. Where the caller runs all of it by itself, there is one task.

%Tasks = type {
  ptr, ptr, i64,                   ; 0 body, 1 closure, 2 tasks
  i32, i32, i32                    ; 3 how many have arrived at the barrier, 4 its round, 5 whether a task has failed
}

define internal i32 @run_task(ptr %tasks, i64 %begin, i64 %end) nounwind {
entry:
  %closure.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 1
  %count.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 2
  %body = load ptr, ptr %tasks
  %closure = load ptr, ptr %closure.at
  %many = sub i64 %end, %begin
  %alone = icmp sgt i64 %many, 1
  br i1 %alone, label %single, label %run
single:
  store i64 1, ptr %count.at
  br label %run
run:
  %count = load i64, ptr %count.at
  %status = call i32 %body(ptr %closure, i64 %begin, i64 %count, ptr %tasks)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %done
failed:
  %failed.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 5
  store atomic i32 1, ptr %failed.at seq_cst, align 4
  br label %done
done:
  ret i32 %status
}

; Run `body(closure, task, tasks, barrier)` on every thread; gives what the calls gave, or-ed.
define i32 @tilewright_launch(ptr %body, ptr %closure) nounwind {
entry:
  %tasks = alloca %Tasks, align 64
  %pool = load atomic ptr, ptr @tilewright_pool seq_cst, align 8
  %none = icmp eq ptr %pool, null
  br i1 %none, label %start, label %several
several:
  %workers.at = getelementptr %Pool, ptr %pool, i32 0, i32 10
  %workers = load i32, ptr %workers.at
  %wide = zext i32 %workers to i64
  br label %start
start:
  %others = phi i64 [ 0, %entry ], [ %wide, %several ]
  %count = add i64 %others, 1
  %closure.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 1
  %count.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 2
  %arrived.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 3
  %round.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 4
  %failed.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 5
  store ptr %body, ptr %tasks
  store ptr %closure, ptr %closure.at
  store i64 %count, ptr %count.at
  store i32 0, ptr %arrived.at
  store i32 0, ptr %round.at
  store i32 0, ptr %failed.at
  %status = call i32 @run_loop(ptr %pool, ptr @run_task, ptr %tasks, i64 %count, i1 true, i1 false)
  ret i32 %status
}

; Wait until all tasks are here; gives 1 where one of them has failed, and never will be.
define i32 @tilewright_task_barrier(ptr %tasks) nounwind {
entry:
  %count.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 2
  %arrived.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 3
  %round.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 4
  %failed.at = getelementptr %Tasks, ptr %tasks, i32 0, i32 5
  %count = load i64, ptr %count.at
  %several = icmp sgt i64 %count, 1
  br i1 %several, label %arrive, label %done
arrive:
  %round = load atomic i32, ptr %round.at seq_cst, align 4
  %before = atomicrmw add ptr %arrived.at, i32 1 seq_cst
  %now = add i32 %before, 1
  %all = trunc i64 %count to i32
  %last = icmp eq i32 %now, %all
  br i1 %last, label %release, label %wait
release:
  store atomic i32 0, ptr %arrived.at seq_cst, align 4
  %ignored = atomicrmw add ptr %round.at, i32 1 seq_cst
  br label %done
wait:
  %seen = call i32 @spin(ptr %round.at, i32 %round, i1 false)
  %over = icmp ne i32 %seen, %round
  br i1 %over, label %done, label %look
look:
  %failed = load atomic i32, ptr %failed.at seq_cst, align 4
  %lost = icmp ne i32 %failed, 0
  br i1 %lost, label %give.up, label %rest
rest:
  %yielded = call i32 @sched_yield()
  br label %wait
give.up:
  ret i32 1
done:
  ret i32 0
}

define internal void @futex_wait.unless.zero(ptr %word, i32 %value) nounwind {
  %zero = icmp eq i32 %value, 0
  br i1 %zero, label %done, label %wait
wait:
  call void @futex_wait(ptr %word, i32 %value)
  br label %done
done:
  ret void
}

; Let the threads of a pool end, after the loop that they are at. The pool stays busy: nobody may use it any more.
define void @tilewright_end_pool(ptr %pool) nounwind {
entry:
  %busy = getelementptr %Pool, ptr %pool, i32 0, i32 7
  br label %try
try:
  %swap = cmpxchg ptr %busy, i32 0, i32 1 seq_cst seq_cst
  %ours = extractvalue { i32, i1 } %swap, 1
  br i1 %ours, label %end, label %later
later:
  %ignored = call i32 @sched_yield()
  br label %try
end:
  %ending = getelementptr %Pool, ptr %pool, i32 0, i32 11
  store atomic i32 1, ptr %ending seq_cst, align 4
  %number.at = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %before = atomicrmw add ptr %number.at, i32 1 seq_cst
  call void @futex_wake(ptr %number.at, i32 2147483647)
  ret void
}
