; for x86-64

define internal i32 @main_kernel.parallel.i.outer(ptr noalias noundef nonnull %A, ptr noalias noundef nonnull %B, ptr noalias noundef nonnull %C, i64 %begin, i64 %end) #0 {
entry:
  %C.local = alloca float, i64 16, align 64
  %start = add nsw i64 0, %begin
  %stop = add nsw i64 0, %end
  br label %i.outer
i.outer:
  %i.outer.at = phi i64 [ %start, %entry ], [ %i.outer.step, %i.outer.next ]
  br label %j.outer
j.outer:
  %j.outer.at = phi i64 [ 0, %i.outer ], [ %j.outer.step, %j.outer.next ]
  store <8 x float> zeroinitializer, ptr %C.local, align 4
  %at = getelementptr inbounds float, ptr %C.local, i64 8
  store <8 x float> zeroinitializer, ptr %at, align 4
  br label %k
k:
  %k.at = phi i64 [ 0, %j.outer ], [ %k.step, %k.next ]
  %load = load <8 x float>, ptr %C.local, align 4
  %mul = mul nsw i64 %i.outer.at, 64
  %add = add nsw i64 %mul, %k.at
  %at.1 = getelementptr inbounds float, ptr %A, i64 %add
  %load.1 = load float, ptr %at.1, align 4
  %lane = insertelement <8 x float> poison, float %load.1, i64 0
  %splat = shufflevector <8 x float> %lane, <8 x float> poison, <8 x i32> zeroinitializer
  %mul.1 = mul nsw i64 %k.at, 48
  %mul.2 = mul nsw i64 %j.outer.at, 8
  %add.1 = add nsw i64 %mul.1, %mul.2
  %at.2 = getelementptr inbounds float, ptr %B, i64 %add.1
  %load.2 = load <8 x float>, ptr %at.2, align 4
  %fmul = fmul contract <8 x float> %splat, %load.2
  %fadd = fadd contract <8 x float> %load, %fmul
  store <8 x float> %fadd, ptr %C.local, align 4
  %at.3 = getelementptr inbounds float, ptr %C.local, i64 8
  %load.3 = load <8 x float>, ptr %at.3, align 4
  %mul.3 = mul nsw i64 %i.outer.at, 64
  %add.2 = add nsw i64 %mul.3, %k.at
  %add.3 = add nsw i64 %add.2, 32
  %at.4 = getelementptr inbounds float, ptr %A, i64 %add.3
  %load.4 = load float, ptr %at.4, align 4
  %lane.1 = insertelement <8 x float> poison, float %load.4, i64 0
  %splat.1 = shufflevector <8 x float> %lane.1, <8 x float> poison, <8 x i32> zeroinitializer
  %mul.4 = mul nsw i64 %k.at, 48
  %mul.5 = mul nsw i64 %j.outer.at, 8
  %add.4 = add nsw i64 %mul.4, %mul.5
  %at.5 = getelementptr inbounds float, ptr %B, i64 %add.4
  %load.5 = load <8 x float>, ptr %at.5, align 4
  %fmul.1 = fmul contract <8 x float> %splat.1, %load.5
  %fadd.1 = fadd contract <8 x float> %load.3, %fmul.1
  %at.6 = getelementptr inbounds float, ptr %C.local, i64 8
  store <8 x float> %fadd.1, ptr %at.6, align 4
  br label %k.next
k.next:
  %k.step = add nsw i64 %k.at, 1
  %cmp = icmp slt i64 %k.step, 32
  br i1 %cmp, label %k, label %k.done
k.done:
  %load.6 = load <8 x float>, ptr %C.local, align 4
  %mul.6 = mul nsw i64 %i.outer.at, 96
  %mul.7 = mul nsw i64 %j.outer.at, 8
  %add.5 = add nsw i64 %mul.6, %mul.7
  %at.7 = getelementptr inbounds float, ptr %C, i64 %add.5
  store <8 x float> %load.6, ptr %at.7, align 4
  %at.8 = getelementptr inbounds float, ptr %C.local, i64 8
  %load.7 = load <8 x float>, ptr %at.8, align 4
  %mul.8 = mul nsw i64 %i.outer.at, 96
  %mul.9 = mul nsw i64 %j.outer.at, 8
  %add.6 = add nsw i64 %mul.8, %mul.9
  %add.7 = add nsw i64 %add.6, 48
  %at.9 = getelementptr inbounds float, ptr %C, i64 %add.7
  store <8 x float> %load.7, ptr %at.9, align 4
  br label %j.outer.next
j.outer.next:
  %j.outer.step = add nsw i64 %j.outer.at, 1
  %cmp.1 = icmp slt i64 %j.outer.step, 6
  br i1 %cmp.1, label %j.outer, label %j.outer.done
j.outer.done:
  br label %i.outer.next
i.outer.next:
  %i.outer.step = add nsw i64 %i.outer.at, 1
  %cmp.2 = icmp slt i64 %i.outer.step, %stop
  br i1 %cmp.2, label %i.outer, label %i.outer.done
i.outer.done:
  ret i32 0
}

define internal i32 @main_kernel.parallel.i.outer.range(ptr %closure, i64 %begin, i64 %end) #0 {
entry:
  %captured = load ptr, ptr %closure
  %slot = getelementptr i64, ptr %closure, i64 1
  %captured.1 = load ptr, ptr %slot
  %slot.1 = getelementptr i64, ptr %closure, i64 2
  %captured.2 = load ptr, ptr %slot.1
  %status = call i32 @main_kernel.parallel.i.outer(ptr %captured, ptr %captured.1, ptr %captured.2, i64 %begin, i64 %end)
  ret i32 %status
}

define internal i32 @main_kernel(ptr noalias noundef nonnull %A, ptr noalias noundef nonnull %B, ptr noalias noundef nonnull %C) #0 {
entry:
  %closure = alloca i64, i64 3, align 8
  store ptr %A, ptr %closure
  %slot = getelementptr i64, ptr %closure, i64 1
  store ptr %B, ptr %slot
  %slot.1 = getelementptr i64, ptr %closure, i64 2
  store ptr %C, ptr %slot.1
  %tilewright_parallel_for = call i32 @tilewright_parallel_for(ptr @main_kernel.parallel.i.outer.range, ptr %closure, i64 32)
  %cmp = icmp ne i32 %tilewright_parallel_for, 0
  br i1 %cmp, label %failed, label %going
failed:
  ret i32 1
going:
  ret i32 0
}

define i32 @main_kernel.packed(ptr %arguments) #0 {
entry:
  %A = load ptr, ptr %arguments
  %slot = getelementptr i64, ptr %arguments, i64 1
  %B = load ptr, ptr %slot
  %slot.1 = getelementptr i64, ptr %arguments, i64 2
  %C = load ptr, ptr %slot.1
  %status = call i32 @main_kernel(ptr %A, ptr %B, ptr %C)
  ret i32 %status
}

declare i32 @tilewright_parallel_for(ptr, ptr, i64)

attributes #0 = { nounwind }
