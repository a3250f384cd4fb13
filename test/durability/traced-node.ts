import { readFileSync } from 'node:fs';
import type { DriverCommand } from '../crash/bundle.ts';
import { eventually } from '../support/eventually.ts';
import type { Scratch } from '../support/scratch.ts';
import type { DiskEvent } from './disk-event.ts';
import { diskEvents, parseTrace, type SystemCall, straced } from './strace.ts';

/** When the caller of an operation had its answer. */
export interface Answered {
  readonly to: string;
  readonly time: number;
}

/** Writes down what the drivers that it starts tell the kernel. */
export class DriverTrace {
  readonly #file: string;

  constructor(scratch: Scratch) {
    this.#file = scratch.join('strace');
  }

  /** The driver under strace. Every file operation is a system call of its own, and none goes through io_uring. */
  command(driver: DriverCommand): DriverCommand {
    return {
      plain: [...straced(this.#file), ...driver.plain],
      traced: [...straced(this.#file), ...driver.traced],
      environment: { ...driver.environment, UV_USE_IO_URING: '0' },
      [Symbol.dispose]: () => undefined,
    };
  }

  /** Does something that ends with an answer of the driver. */
  async answerTo(to: string, work: () => Promise<unknown>): Promise<Answered> {
    await work();
    // A moment later by our clock, which is coarser: the driver says nothing more until it is asked.
    return { to, time: (Date.now() + 1) / 1000 };
  }

  /** All that was done, when the last driver has ended; it had this process id. */
  async events(pid: number, answers: readonly Answered[]): Promise<DiskEvent[]> {
    let text = '';
    await eventually(() => {
      text = readFileSync(this.#file, 'utf8');
      if (!new RegExp(`^${pid} .*\\+\\+\\+ (exited|killed)`, 'm').test(text)) throw new Error('strace has not ended');
    });
    const calls = parseTrace(text);
    return [...diskEvents(calls), ...answers.map((answer) => answerEvent(calls, answer))];
  }
}

/** The last that the driver wrote to a socket before its caller had the answer. */
function answerEvent(calls: readonly SystemCall[], { time, to }: Answered): DiskEvent {
  const written = calls.findLast(
    (call) => /^writev?$/.test(call.name) && /^\d+<(socket|UNIX)/.test(call.arguments) && call.time <= time,
  );
  if (written === undefined) throw new Error(`the trace has no answer to ${to}`);
  return { kind: 'answer', to, start: written.start, end: written.start };
}
