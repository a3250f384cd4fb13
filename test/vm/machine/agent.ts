/**
 * Runs in the virtual machine, as its only program at first: does what the host asks over a serial port.
 * node agent.ts PORT
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createReadStream, openSync, writeSync } from 'node:fs';
import { connect } from 'node:net';
import { encodeFrame, type Frame, type FrameKind, FrameReader, type Request } from './frames.ts';
import { tasks } from './tasks.ts';

/** What takes the input of an exchange. */
interface Exchange {
  input(bytes: Buffer): void;
  end(): void;
}

const [, , portPath = ''] = process.argv;
const port = openSync(portPath, 'r+');
const exchanges = new Map<number, Exchange>();

/** Waits until the port has taken all of it: so what the host hears comes in the order in which it happened. */
function send(kind: FrameKind, channel: number, bytes?: Uint8Array | string): void {
  const frame = encodeFrame(kind, channel, bytes);
  for (let written = 0; written < frame.length; ) written += writeSync(port, frame, written);
}

function finish(channel: number, result: object): void {
  exchanges.delete(channel);
  send('done', channel, JSON.stringify(result));
}

function begin(channel: number, request: Request): void {
  switch (request.type) {
    case 'run':
      run(channel, request.command);
      break;
    case 'connect':
      connectTo(channel, request.path);
      break;
    case 'task':
      void runTask(channel, request.name, request.argument);
  }
}

function run(channel: number, command: string): void {
  const child = spawn('/bin/bash', ['-c', command], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    cwd: '/',
  });
  child.stdout.on('data', (bytes: Buffer) => send('output', channel, bytes));
  child.stderr.on('data', (bytes: Buffer) => send('error', channel, bytes));
  child.once('error', ({ message }) => finish(channel, { code: null, signal: message }));
  child.once('close', (code, signal) => finish(channel, { code, signal }));
  exchanges.set(channel, { input: () => undefined, end: () => killGroup(child) });
}

/** The shell and all that it started: what it leaves behind on purpose, it starts with setsid. */
function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended just now.
  }
}

function connectTo(channel: number, path: string): void {
  const socket = connect(path);
  socket.on('data', (bytes: Buffer) => send('output', channel, bytes));
  socket.once('error', () => undefined);
  socket.once('close', () => finish(channel, {}));
  exchanges.set(channel, { input: (bytes) => socket.write(bytes), end: () => socket.end() });
}

async function runTask(channel: number, name: string, argument: unknown): Promise<void> {
  const task: ((argument: never) => Promise<unknown>) | undefined = Object.entries(tasks).find(
    ([key]) => key === name,
  )?.[1];
  try {
    if (task === undefined) throw new Error(`there is no task ${name}`);
    // The host calls tasks by their types: see VirtualMachine.task.
    finish(channel, { value: await task(argument as never) });
  } catch (error) {
    finish(channel, { failure: error instanceof Error ? error.message : String(error) });
  }
}

function hear({ bytes, channel, kind }: Frame): void {
  if (kind === 'open') begin(channel, JSON.parse(bytes.toString()));
  if (kind === 'input') exchanges.get(channel)?.input(bytes);
  if (kind === 'end') exchanges.get(channel)?.end();
}

const reader = new FrameReader();
createReadStream('', { fd: port, highWaterMark: 1 << 16 }).on('data', (chunk) => {
  for (const frame of reader.read(Buffer.from(chunk))) hear(frame);
});
send('hello', 0);
