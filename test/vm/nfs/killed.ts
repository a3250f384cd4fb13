import { describe, test } from 'node:test';
import { succeedsOnNfs } from './guest.ts';
import type { NfsServerProgram } from './server.ts';

/** Kills home and node service of volumes on a server of NFS, in a virtual machine. */
export function describeKilled(name: string, server: NfsServerProgram): void {
  describe(`a driver of volumes on ${name} that is killed`, () => {
    test('loses nothing as the home, before and after each step of each operation', async (t) => {
      t.diagnostic(await succeedsOnNfs('killed-in-guest', server));
    });

    test('loses and leaves nothing as the node service, before and after each step', async (t) => {
      t.diagnostic(await succeedsOnNfs('node-killed-in-guest', server));
    });
  });
}
