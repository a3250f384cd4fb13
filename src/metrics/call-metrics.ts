import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { callBegan, callEnded } from '../csi/call-events.ts';

const secondBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30];

/** The calls of all sockets that speak gRPC. RPCs and codes come from the contract: a caller cannot make up more. */
export class CallMetrics {
  /** Start times of the calls in progress. */
  readonly #running = new Map<object, number>();
  readonly #oldest: Gauge;

  constructor(registry: Registry) {
    const registers = [registry];
    const total = new Counter({
      name: 'holdfast_csi_calls_total',
      help: 'CSI calls that have ended, by RPC and gRPC code.',
      labelNames: ['rpc', 'code'],
      registers,
    });
    const duration = new Histogram({
      name: 'holdfast_csi_call_duration_seconds',
      help: 'Duration of CSI calls, including failed ones.',
      labelNames: ['rpc'],
      buckets: secondBuckets,
      registers,
    });
    const inFlight = new Gauge({
      name: 'holdfast_csi_calls_in_flight',
      help: 'CSI calls in progress, including those whose clients went away.',
      labelNames: ['rpc'],
      registers,
    });
    this.#oldest = new Gauge({
      name: 'holdfast_csi_oldest_call_seconds',
      help: 'Age of the oldest CSI call in progress; 0 if there is none.',
      registers,
    });
    callBegan.subscribe(({ call, rpc }) => {
      this.#running.set(call, performance.now());
      inFlight.inc({ rpc });
    });
    callEnded.subscribe(({ call, code, ms, rpc }) => {
      // A call may be older than this listener.
      if (this.#running.delete(call)) inFlight.dec({ rpc });
      total.inc({ rpc, code });
      duration.observe({ rpc }, ms / 1000);
    });
  }

  collect(): void {
    const nowMs = performance.now();
    // The first is the oldest: a Map keeps the order of insertion.
    const [oldestMs = nowMs] = this.#running.values();
    this.#oldest.set((nowMs - oldestMs) / 1000);
  }
}
