; for x86-64

define internal i32 @main_kernel(ptr noalias noundef nonnull %A, ptr noalias noundef nonnull %B, i32 %n) #0 {
entry:
  %sext = sext i32 %n to i64
  %add = add nsw i64 %sext, 7
  %sdiv = sdiv i64 %add, 8
  %cmp = icmp slt i64 0, %sdiv
  br i1 %cmp, label %i.outer, label %i.outer.done
i.outer:
  %i.outer.at = phi i64 [ 0, %entry ], [ %i.outer.step, %i.outer.next ]
  %mul = mul nsw i64 %i.outer.at, 8
  %add.1 = add nsw i64 %mul, 7
  %sext.1 = sext i32 %n to i64
  %cmp.1 = icmp slt i64 %add.1, %sext.1
  br i1 %cmp.1, label %then, label %else
then:
  %mul.1 = mul nsw i64 %i.outer.at, 8
  %at = getelementptr inbounds float, ptr %A, i64 %mul.1
  %load = load <8 x float>, ptr %at, align 4
  %exp = call <8 x float> @tilewright.exp.v8f32(<8 x float> %load)
  %at.1 = getelementptr inbounds float, ptr %B, i64 %mul.1
  store <8 x float> %exp, ptr %at.1, align 4
  br label %joined
else:
  %sext.2 = sext i32 %n to i64
  %mul.2 = mul nsw i64 %i.outer.at, 8
  %gap = sub i64 %sext.2, %mul.2
  %smin = call i64 @llvm.smin.i64(i64 %gap, i64 1073741824)
  %smax = call i64 @llvm.smax.i64(i64 %smin, i64 -1073741824)
  %trunc = trunc i64 %smax to i32
  %lane = insertelement <8 x i32> poison, i32 %trunc, i64 0
  %splat = shufflevector <8 x i32> %lane, <8 x i32> poison, <8 x i32> zeroinitializer
  %cmp.2 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %splat
  %vector = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %cmp.2)
  br i1 %vector, label %some, label %joined.1
some:
  %mul.3 = mul nsw i64 %i.outer.at, 8
  %at.2 = getelementptr inbounds float, ptr %A, i64 %mul.3
  %masked = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %at.2, i32 4, <8 x i1> %cmp.2, <8 x float> zeroinitializer)
  %exp.1 = call <8 x float> @tilewright.exp.v8f32(<8 x float> %masked)
  %at.3 = getelementptr inbounds float, ptr %B, i64 %mul.3
  call void @llvm.masked.store.v8f32.p0(<8 x float> %exp.1, ptr %at.3, i32 4, <8 x i1> %cmp.2)
  br label %joined.1
joined.1:
  br label %joined
joined:
  br label %i.outer.next
i.outer.next:
  %i.outer.step = add nsw i64 %i.outer.at, 1
  %cmp.3 = icmp slt i64 %i.outer.step, %sdiv
  br i1 %cmp.3, label %i.outer, label %i.outer.done
i.outer.done:
  ret i32 0
}

define i32 @main_kernel.packed(ptr %arguments) #0 {
entry:
  %A = load ptr, ptr %arguments
  %slot = getelementptr i64, ptr %arguments, i64 1
  %B = load ptr, ptr %slot
  %slot.1 = getelementptr i64, ptr %arguments, i64 2
  %n = load i32, ptr %slot.1
  %status = call i32 @main_kernel(ptr %A, ptr %B, i32 %n)
  ret i32 %status
}

define internal <8 x float> @tilewright.exp.v8f32(<8 x float> %x) alwaysinline #0 {
entry:
  %cmp = fcmp olt <8 x float> %x, splat (float -105.0)
  %select = select <8 x i1> %cmp, <8 x float> splat (float -105.0), <8 x float> %x
  %cmp.1 = fcmp ogt <8 x float> %select, splat (float 90.0)
  %select.1 = select <8 x i1> %cmp.1, <8 x float> splat (float 90.0), <8 x float> %select
  %fmuladd = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %select.1, <8 x float> splat (float 0x3FF7154760000000), <8 x float> splat (float 12582912.0))
  %fsub = fsub <8 x float> %fmuladd, splat (float 12582912.0)
  %bitcast = bitcast <8 x float> %fmuladd to <8 x i32>
  %sub = sub <8 x i32> %bitcast, splat (i32 1262485504)
  %fmuladd.1 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %fsub, <8 x float> splat (float 0xBFE6300000000000), <8 x float> %select.1)
  %fmuladd.2 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %fsub, <8 x float> splat (float 0x3F2BD01060000000), <8 x float> %fmuladd.1)
  %fmuladd.3 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> splat (float 0x3F29DF7F20000000), <8 x float> %fmuladd.2, <8 x float> splat (float 0x3F56D4CDA0000000))
  %fmuladd.4 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %fmuladd.3, <8 x float> %fmuladd.2, <8 x float> splat (float 0x3F81113100000000))
  %fmuladd.5 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %fmuladd.4, <8 x float> %fmuladd.2, <8 x float> splat (float 0x3FA5554E80000000))
  %fmuladd.6 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %fmuladd.5, <8 x float> %fmuladd.2, <8 x float> splat (float 0x3FC5555540000000))
  %fmuladd.7 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %fmuladd.6, <8 x float> %fmuladd.2, <8 x float> splat (float 0.5))
  %fmul = fmul <8 x float> %fmuladd.2, %fmuladd.2
  %fmuladd.8 = call <8 x float> @llvm.fmuladd.v8f32(<8 x float> %fmuladd.7, <8 x float> %fmul, <8 x float> %fmuladd.2)
  %fadd = fadd <8 x float> %fmuladd.8, splat (float 1.0)
  %ashr = ashr <8 x i32> %sub, splat (i32 1)
  %sub.1 = sub <8 x i32> %sub, %ashr
  %add = add <8 x i32> %ashr, splat (i32 127)
  %shl = shl <8 x i32> %add, splat (i32 23)
  %add.1 = add <8 x i32> %sub.1, splat (i32 127)
  %shl.1 = shl <8 x i32> %add.1, splat (i32 23)
  %bitcast.1 = bitcast <8 x i32> %shl to <8 x float>
  %fmul.1 = fmul <8 x float> %fadd, %bitcast.1
  %bitcast.2 = bitcast <8 x i32> %shl.1 to <8 x float>
  %fmul.2 = fmul <8 x float> %fmul.1, %bitcast.2
  ret <8 x float> %fmul.2
}

declare <8 x float> @llvm.fmuladd.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i1 @llvm.vector.reduce.or.v8i1(<8 x i1>)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)

attributes #0 = { nounwind }
