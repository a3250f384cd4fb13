import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { LuksPrograms } from './programs.ts';

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A program that ends when the test ends it. */
class Program {
  static running = 0;
  static max = 0;
  static ended = 0;
  end: () => void = () => undefined;

  readonly run = async (): Promise<void> => {
    Program.running++;
    Program.max = Math.max(Program.max, Program.running);
    await new Promise<void>((resolve) => {
      this.end = resolve;
    });
    Program.running--;
    Program.ended++;
  };
}

describe('programs of encryption', () => {
  test('EN02: no more of them run at a time than the memory of a container has room for, and a pool leaves one to the others', async () => {
    const pools = ['a', 'b', 'c'].map((name) => new LuksPrograms(new DiskQueue(name, 1)));
    const programs = pools.flatMap((pool) =>
      Array.from({ length: 8 }, () => {
        const program = new Program();
        return { program, done: pool.cryptsetup(program.run) };
      }),
    );
    await turn();
    assert.equal(Program.running, 4);
    for (let index = 0; index < programs.length; index++) {
      for (const { program } of programs) program.end();
      await turn();
    }
    assert.equal(Program.ended, programs.length);
    await Promise.all(programs.map(({ done }) => done));
    assert.equal(Program.max, 4);
  });

  test('EN03: who waits for one hears when the pool is given up, and the pool is at work until it has ended', async () => {
    const queue = new DiskQueue('sick', 1);
    const pool = new LuksPrograms(queue);
    const programs = Array.from({ length: 5 }, () => new Program());
    const ends = Promise.allSettled(programs.map((program) => pool.cryptsetup(program.run)));
    await turn();
    queue.close(new Error('its disk hangs'));
    for (const end of await ends) assert.match(String(end.status === 'rejected' && end.reason), /its disk hangs/);
    assert.equal(queue.isIdle, false);
    // Others go on meanwhile.
    const others = Array.from({ length: 4 }, () => new Program());
    const other = new LuksPrograms(new DiskQueue('well', 1));
    const before = Program.running;
    const done = others.slice(0, 3).map((program) => other.cryptsetup(program.run));
    await turn();
    assert.equal(Program.running - before, 3);
    for (const program of others) program.end();
    await Promise.all(done);
    for (const program of programs) program.end();
    await turn();
    assert.equal(queue.isIdle, true);
  });
});
