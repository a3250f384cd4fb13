/** Runs in the virtual machine: encrypted disks that PersistentVolumes name, over a kind whose devices are loop devices. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { mappedPath } from '../../../src/kernel/block/device-mapper.ts';
import { encryptable } from '../../../src/pool/layers/luks/named/kind.ts';
import { markOf, markPlaces } from '../../../src/pool/layers/luks/named/marks.ts';
import { parseHandle } from '../../../src/volume/handle.ts';
import { mapperName } from '../../../src/volume/mapper-name.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { lunKind } from '../../support/context-kinds.ts';
import { sparseFile } from '../../support/disk.ts';
import { blockCapability, mountCapability, type TestVolume } from '../../support/node-volume.ts';
import { refused } from '../../support/refused.ts';
import { newFindableKey } from './key-hunt.ts';

const secrets = { key: newFindableKey() };
const name = mapperName(parseHandle('database') ?? assert.fail());
let harness: ContextHarness;
let image: string;

beforeEach(async () => {
  harness = await ContextHarness.open([encryptable(lunKind)]);
  image = sparseFile(harness.scratch.join('disk.img'), 320);
});
afterEach(() => harness[Symbol.asyncDispose]());

function volumeOf(capability: TestVolume['capability'] = mountCapability('SINGLE_NODE_WRITER', [], 'ext4')) {
  const volume_context = { image, encryption: 'luks2' };
  const volume = harness.volume('database', capability);
  return { volume, stage: () => volume.stage({ volume_context, secrets }) };
}

function mappers(): string {
  return execFileSync('dmsetup', ['ls'], { encoding: 'utf8' });
}

function loops(): string {
  return execFileSync('losetup', ['--noheadings', '--output', 'NAME', '--associated', image], {
    encoding: 'utf8',
  }).trim();
}

function nothingLeft(): void {
  assert.doesNotMatch(mappers(), /holdfast/);
  assert.equal(loops(), '');
  assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
}

/** A mapper of a driver that was killed while it made the filesystem. @returns its path */
function leaveDraft(): string {
  const draft = `${name}-draft-disk-0123abcd`;
  execFileSync('dmsetup', ['create', '--noudevsync', draft, '--table', `0 2048 linear ${loops()} 32768`]);
  const [, minor = ''] =
    /\(\d+:(\d+)\)/.exec(
      mappers()
        .split('\n')
        .find((line) => line.startsWith(draft)) ?? '',
    ) ?? [];
  return mappedPath({ major: 253, minor: Number(minor) });
}

function put(bytes: Buffer, offset: number): void {
  const file = openSync(image, 'r+');
  writeSync(file, bytes, 0, bytes.length, offset);
  closeSync(file);
}

describe('an encrypted disk that a PersistentVolume names', () => {
  test('is let go with all of its mappers, also those of a driver that was killed', async () => {
    const { stage, volume } = volumeOf();
    await stage();
    leaveDraft();
    await volume.down();
    nothingLeft();
  });

  test('is not let go while a program has one of them', async () => {
    const { stage, volume } = volumeOf();
    await stage();
    const open = openSync(leaveDraft(), 'r');
    await refused(volume.unstage(), 'UNAVAILABLE', /^volume database: a program still has \/dev\/dm-\d+ open/);
    assert.notEqual(loops(), '');
    closeSync(open);
    await volume.unstage();
    nothingLeft();
  });

  test('is let go by the next driver, if the one that made it was killed before anything was mounted', async () => {
    const { stage, volume } = volumeOf();
    await stage();
    execFileSync('umount', [volume.staging]);
    execFileSync('cryptsetup', ['close', name]);
    leaveDraft();
    await harness.restart();
    await volume.unstage();
    nothingLeft();
  });

  for (const capability of [
    mountCapability('SINGLE_NODE_WRITER', ['ro'], 'ext4'),
    mountCapability('SINGLE_NODE_READER_ONLY', [], 'ext4'),
    blockCapability('SINGLE_NODE_READER_ONLY'),
  ]) {
    test(`is not made of a blank one for a use that only reads: ${JSON.stringify(capability)}`, async () => {
      const { stage } = volumeOf(capability);
      await refused(stage(), 'FAILED_PRECONDITION', /^volume database: .* is wanted for reading only: none is made/);
      nothingLeft();
      assert.ok(readFileSync(image).every((byte) => byte === 0));
    });
  }

  test('gets its filesystem again, in the same header, if that was not finished', async () => {
    const { stage, volume } = volumeOf();
    await stage();
    await volume.down();
    const header = readFileSync(image).subarray(0, markPlaces.header);
    put(markOf(crypto.randomUUID()), markPlaces.header);
    await stage();
    writeFileSync(join(volume.staging, 'file'), 'text');
    await volume.down();
    nothingLeft();
    assert.ok(readFileSync(image).subarray(0, markPlaces.header).equals(header));
    await stage();
    assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'text');
    await volume.down();
  });

  test('is not opened if it has integrity, which is said', async () => {
    const kdf = ['--pbkdf', 'pbkdf2', '--pbkdf-force-iterations', '1000', '--integrity', 'hmac-sha256'];
    const words = ['-q', 'luksFormat', '--type', 'luks2', ...kdf, '--integrity-no-wipe', '--key-file', '-', image];
    const made = spawnSync('cryptsetup', words, { input: Buffer.from(secrets.key, 'base64'), encoding: 'utf8' });
    assert.equal(made.status, 0, made.stderr);
    const { stage } = volumeOf();
    await refused(stage(), 'FAILED_PRECONDITION', /integrity/);
    nothingLeft();
  });
});
