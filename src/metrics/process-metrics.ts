import { readdirSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { Counter, Gauge, type Registry } from 'prom-client';

/*
 * prom-client's own set of these keeps a timer of 10 ms and an observer of garbage collections running: too much for a
 * driver that is idle most of the time. These cost nothing between scrapes. Names are Prometheus' usual ones.
 */

/** The resources that the process uses. */
export function addProcessMetrics(registry: Registry): void {
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  const counter = (name: string, help: string, read: () => number) => {
    let seen = 0;
    new Counter({
      name,
      help,
      registers,
      collect() {
        const now = Math.max(seen, read());
        this.inc(now - seen);
        seen = now;
      },
    });
  };
  counter('process_cpu_seconds_total', 'CPU time, user and system.', () => {
    const { system, user } = process.cpuUsage();
    return (system + user) / 1e6;
  });
  counter(
    'nodejs_eventloop_active_seconds_total',
    'Time for which the event loop was not idle.',
    () => performance.eventLoopUtilization().active / 1000,
  );
  gauge('process_start_time_seconds', 'Start of the process, in seconds since 1970.', () =>
    Math.round(performance.timeOrigin / 1000),
  );
  gauge('process_resident_memory_bytes', 'Memory in RAM, shared pages included.', () => process.memoryUsage.rss());
  gauge('nodejs_heap_size_used_bytes', "What V8's heap holds.", () => process.memoryUsage().heapUsed);
  // procfs is memory, so this waits for no disk.
  gauge('process_open_fds', 'Open file descriptors.', () => readdirSync('/proc/self/fd').length - 1);
}
