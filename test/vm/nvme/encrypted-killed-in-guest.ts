/** Runs in the virtual machine: the node service is killed around each step with which it encrypts a blank namespace. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { closeSync, openSync, writeSync } from 'node:fs';
import { before, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { nvmeSubsystem } from '../../../src/kernel/block/nvme.ts';
import { markOf, markPlaces } from '../../../src/pool/layers/luks/named/marks.ts';
import type { CrashPoint } from '../../../src/volume/step.ts';
import { Scratch } from '../../support/scratch.ts';
import { blank } from '../network-disk/encrypted.ts';
import { dieAndBeUndone } from '../network-disk/killed.ts';
import { context, directory, nqn, target, uuid } from './guest.ts';

const image = `${directory}/1.img`;
const encrypted = JSON.stringify({ ...context, encryption: 'luks2' });
const mortal = fileURLToPath(new URL('./mortal.mjs', import.meta.url));

/** Before a step is after the one that comes first. */
const points: readonly CrashPoint[] = [
  { when: 'before', step: 'luks/mark' },
  { when: 'after', step: 'luks/mark' },
  { when: 'after', step: 'luks/format' },
  { when: 'after', step: 'luks/mark-header' },
  { when: 'after', step: 'luks/unmark' },
  { when: 'after', step: 'luks/open' },
  { when: 'after', step: 'create/format' },
  { when: 'after', step: 'luks/close' },
  { when: 'after', step: 'luks/finish' },
  { when: 'after', step: 'luks/open', pass: 2 },
  { when: 'after', step: 'stage/mount' },
  { when: 'after', step: 'unstage/unmount' },
  { when: 'after', step: 'luks/close', pass: 2 },
];

before(() => {
  target('make', directory);
  target('namespace', directory, '1', uuid, 'blank');
  execFileSync('modprobe', ['dm-crypt']);
});
beforeEach(() => blank(image));

function nothingLeft(): void {
  assert.deepEqual(nvmeSubsystem(nqn), { nqn, controllers: [], namespaces: [] });
  assert.doesNotMatch(execFileSync('dmsetup', ['ls'], { encoding: 'utf8' }), /holdfast/);
}

/** A whole life, as that of the next pod. */
function lives(scratch: Scratch): void {
  const { status, stderr, stdout } = spawnSync(process.execPath, [mortal, scratch.path, 'up', encrypted]);
  assert.equal(status, 0, `${stdout}${stderr}`);
  nothingLeft();
}

describe('a node service that is killed', () => {
  for (const point of points) {
    test(`${point.when} ${point.step} ${point.pass ?? 1}: the next one leaves nothing, and finishes it`, () => {
      using scratch = new Scratch('killed');
      dieAndBeUndone(mortal, scratch, encrypted, point);
      nothingLeft();
      lives(scratch);
    });
  }
});

describe('an encryption that was begun', () => {
  const mark = markOf(randomUUID());
  const write = (bytes: Buffer, offset: number) => {
    const file = openSync(image, 'r+');
    writeSync(file, bytes, 0, bytes.length, offset);
    closeSync(file);
  };

  test('is made again if the header is not there yet', () => {
    using scratch = new Scratch('killed');
    write(mark, markPlaces.data);
    write(randomBytes(1 << 20), 1 << 15);
    lives(scratch);
  });

  test('is made again if its whole header is there, also with another key', () => {
    using scratch = new Scratch('killed');
    const words = ['-q', '--key-file', '-', '--pbkdf-memory', '32768', '--iter-time', '50'];
    execFileSync('cryptsetup', [...words, 'luksFormat', '--type', 'luks2', image], { input: 'a key that was changed' });
    write(mark, markPlaces.data);
    lives(scratch);
  });
});
