import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import type { DriverClient } from '../support/client.ts';
import { assertNothingLeft, DriverProcess } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';
import { isSaid, longestMessageCharacters, quotes, quotesOf } from '../support/troubleshooting.ts';
import { keys } from './keys.ts';
import { situations } from './situations.ts';
import { wrongInput } from './wrong-input.ts';

/** With few inodes, and nobody's but ours. */
function mountSmallDisk(scratch: Scratch): void {
  const image = scratch.join('small.img');
  mkdirSync(scratch.join('small'));
  execFileSync('truncate', ['--size=128M', image]);
  execFileSync('mkfs.ext4', ['-q', '-N', '400', image]);
  execFileSync('mount', ['-o', 'loop', image, scratch.join('small')]);
}

describe('docs/troubleshooting.md', () => {
  const scratch = new Scratch('messages');
  const produced: string[] = [];
  const halfScratch = new Scratch('messages-half');
  const drivers: DriverProcess[] = [];
  const clients: DriverClient[] = [];

  before(async () => {
    mountSmallDisk(scratch);
    const start = async (where: Scratch, ...pools: string[]) => {
      const config = `defaultPool: default\npools:\n  default: {}\n  ${pools.join('\n  ')}\n`;
      const driver = await DriverProcess.start(where, {
        config,
        environment: { HOLDFAST_KUBELET_DIR: scratch.join('kubelet') },
      });
      drivers.push(driver);
      clients.push(driver.connect());
    };
    const small = `small: { directory: ${scratch.join('small/pool')}, sickAfter: 2s }`;
    const directories = `directories: { kind: directory, path: ${scratch.join('directories')} }`;
    const keyed = `keyed: { directory: ${scratch.join('keyed')}, encryption: { keyFile: ${scratch.join('no.key')} } }`;
    await start(scratch, `plain: { directory: ${scratch.join('plain')} }`, small, directories, keyed);
    await start(halfScratch, 'broken: { directory: /srv/no-such-disk/pool }');
  });
  after(async () => {
    for (const client of clients) client.close();
    for (const driver of drivers) await driver.stop();
    execFileSync('umount', [scratch.join('small')]);
    try {
      for (const where of [scratch, halfScratch]) assertNothingLeft(where);
    } finally {
      for (const where of [scratch, halfScratch]) where[Symbol.dispose]();
    }
  });

  for (const [name, provoke] of Object.entries({ ...situations, ...keys, ...wrongInput })) {
    test(`${name}: a short message, and the page has it`, async () => {
      const [client, half] = clients;
      assert.ok(client !== undefined && half !== undefined);
      const message = await provoke({ scratch, client, half }).then(
        () => assert.fail('nothing was refused'),
        (error: unknown) => (error instanceof Error ? error.message : assert.fail('no Error')),
      );
      produced.push(message);
      assert.ok(message.length <= longestMessageCharacters, `${message.length} characters: ${message}`);
      const fitting = quotesOf(message);
      assert.equal(fitting.length, 1, `${message}\nis quoted as: ${fitting.join(' | ') || 'nothing'}`);
    });
  }

  test('it has at least 40 wrong inputs', () => {
    assert.ok(new Set(produced).size >= 40, `${new Set(produced).size}`);
  });

  test('what it quotes is what is said', () => {
    assert.deepEqual(
      quotes.filter((quote) => !isSaid(quote, produced)),
      [],
    );
  });
});
