import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { type ErrorCode, errorOfCode, HoldfastError } from '../../volume/errors.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import { failureOf, KernelError, type KernelFailure } from './errno.ts';
import { callHere } from './libc.ts';

/*
 * A thread for many small calls: to hand one of them to a worker thread and back takes longer than most calls. This one gets a
 * job of many calls, and makes them itself, one after the other. A disk that hangs keeps it, and nothing else, as a worker
 * thread: its jobs run in the queue of their disk.
 */

/** By name: each takes and returns what can be copied (structuredClone). */
export type ThreadJobs = Readonly<Record<string, (ask: never) => Promise<unknown>>>;

interface Ask {
  readonly id: number;
  readonly name: string;
  readonly ask: unknown;
}

type Reply = { readonly id: number } & ({ readonly result: unknown } | { readonly error: SentError });

interface Waiting {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

const endMs = 10_000;

/** It ends when the main thread asks for that, also by its own end. */
const endWord = 'end';

export class Thread<Jobs extends ThreadJobs> implements AsyncDisposable {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  readonly #exited: Promise<void>;
  #last = 0;
  #hasEnded = false;

  /** @param module the URL of the module that serves the jobs (`serveJobs`) under this name; in a bundle, of all modules */
  constructor(module: string, name: string) {
    this.#worker = new Worker(new URL(module), { workerData: name, argv: [] });
    this.#worker.unref();
    this.#worker.on('message', (reply: Reply) => this.#answer(reply));
    const lost = (error: Error) => {
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    };
    this.#worker.on('error', lost);
    this.#worker.on('messageerror', lost);
    this.#exited = new Promise((resolve) => {
      this.#worker.once('exit', () => {
        this.#hasEnded = true;
        lost(new Error(`the thread for ${name} has ended`));
        resolve();
      });
    });
  }

  /** Takes the place of one worker thread in the queue of its disk. */
  ask<Name extends keyof Jobs & string>(
    name: Name,
    ask: Parameters<Jobs[Name]>[0],
  ): Promise<Awaited<ReturnType<Jobs[Name]>>> {
    if (this.#hasEnded) return Promise.reject(new Error(`the thread for ${name} has ended`));
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: (result) => resolve(result as Awaited<ReturnType<Jobs[Name]>>), reject });
      this.#worker.ref();
      this.#worker.postMessage({ id, name, ask } satisfies Ask);
    });
  }

  /** Does not wait for a job that goes on, nor long for files that it closes: their disk may hang. */
  async [Symbol.asyncDispose](): Promise<void> {
    const isIdle = this.#waiting.size === 0;
    this.#worker.postMessage(endWord);
    if (!isIdle) return;
    this.#worker.ref();
    if ((await withTimeout(endMs, this.#exited)) === 'late') this.#worker.unref();
  }

  #answer(reply: Reply): void {
    const waiting = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    if (this.#waiting.size === 0) this.#worker.unref();
    if ('error' in reply) waiting?.reject(errorIn(reply.error));
    else waiting?.resolve(reply.result);
  }
}

/** True in a thread that was made for this. */
export function isThreadFor(name: string): boolean {
  return !isMainThread && workerData === name;
}

/** Serves the jobs of this thread. @param end closes what they have left open */
export function serveJobs(jobs: ThreadJobs, end: () => Promise<void>): void {
  callHere();
  parentPort?.on('message', (asked: Ask | typeof endWord) => {
    if (asked === endWord) void end().finally(() => parentPort?.close());
    else void answer(jobs, asked);
  });
}

async function answer(jobs: ThreadJobs, { ask, id, name }: Ask): Promise<void> {
  const job = jobs[name] as ((ask: unknown) => Promise<unknown>) | undefined;
  const reply: Reply = await (job?.(ask) ?? Promise.reject(new Error(`there is no job ${name}`))).then(
    (result) => ({ id, result }),
    (error: unknown) => ({ id, error: errorOut(error) }),
  );
  parentPort?.postMessage(reply);
}

/** An error as a thread sends it: copied, it would be no error of ours any more. */
export type SentError =
  | { readonly kernel: KernelFailure }
  | { readonly code: ErrorCode; readonly message: string }
  | { readonly message: string };

export function errorOut(error: unknown): SentError {
  if (error instanceof KernelError) return { kernel: failureOf(error) };
  const message = error instanceof Error ? error.message : String(error);
  return error instanceof HoldfastError ? { code: error.code, message } : { message };
}

export function errorIn(sent: SentError): Error {
  if ('kernel' in sent) return new KernelError(sent.kernel);
  return 'code' in sent ? errorOfCode(sent.code, sent.message) : new Error(sent.message);
}
