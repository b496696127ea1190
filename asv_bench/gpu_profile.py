import time, cupy as cp, ndual, ndual.gpu.calls, sys, timeit, cProfile, pstats
x = cp.linspace(0, 1, 1000)
def f(x): return cp.sum(cp.sin(cp.cos(cp.exp(x))))
g=ndual.prepare_gradient(f, x, mode="reverse")
g(x); cp.cuda.Device().synchronize()
def one(h):
    h(x); cp.cuda.Device().synchronize()
for n,h in (("prepared",g),("primal",f)):
    print(n, min(timeit.repeat(lambda: one(h), number=50, repeat=30))/50*1e6, "async", min(timeit.repeat(lambda: h(x), number=50, repeat=30))/50*1e6)
for _ in range(200): g(x)
p=cProfile.Profile(); p.enable()
for _ in range(1000): g(x)
p.disable()
pstats.Stats(p).sort_stats('tottime').print_stats(40)
from ndual.gpu.storage import common, ARRAY
st=ndual.gpu.calls.STORAGE
from ndual.rules.elementwise import TABLE
r=TABLE['sin']; y=st.value(r,None,[x],None)
T=lambda s,f: print(s, round(min(timeit.repeat(f, number=500, repeat=5))/500*1e6,2))
T('value', lambda: st.value(r,None,[x],None)); T('pull', lambda: st.pull_all(r,None,[x],x,[True],x))
k=[v for q,v in st._kernels.items() if q[0]=='forward'][0]
T('raw launch', lambda: k((4,),(128,),(x,y,y,1000))); kk=k.kernel; T('function', lambda: kk((4,),(128,),(x,y,y,1000)))
T('common', lambda: common([x])); T('ARRAY', lambda: ARRAY((1000,),x.dtype)); T('x.dtype',lambda:x.dtype); T('device_id',lambda:x.data.device_id); T('ptr',lambda:x.data.ptr)
T('sum', lambda: x.sum()); T('cp.sum', lambda: cp.sum(x)); z=x.sum(); T('bcast', lambda: cp.broadcast_to(z,(1000,))); T('mirror', lambda: st.mirror(x,0,(1000,),(8,),x.dtype)); T('fill', lambda: z.fill(1.0)); T('empty0', lambda: st.empty((1,),x.dtype)); T('setitem', lambda: z.__setitem__(Ellipsis,1.0)); T('copy', lambda: z.copy())
