import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { addLuksKey, fitsLuks, type KeyMaterial } from '../../src/command/cryptsetup.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { deviceNumber } from '../../src/kernel/device.ts';
import { mark, prepareDisk, unfinishedLabel } from '../../src/pool/layers/luks/named/first-use.ts';
import { LuksPrograms } from '../../src/pool/layers/luks/programs.ts';
import { luksHeaderBytes } from '../../src/volume/encryption.ts';
import { parseHandle } from '../../src/volume/handle.ts';
import { attachDisk, digestOf, sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('disk', 4);
const parts = { queue, programs: new LuksPrograms(queue) };
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const handle = parseHandle('database') ?? assert.fail();
const key: KeyMaterial = { bytes: randomBytes(32), isRandom: true };
const other: KeyMaterial = { bytes: randomBytes(32), isRandom: true };
const sizeMiB = 64;

class Disk extends Scratch {
  readonly image = sparseFile(this.join('disk.img'), sizeMiB);
  readonly devicePath = attachDisk(this.image);

  put(bytes: string | Buffer, offset: number): void {
    const options = ['conv=notrunc,fsync', 'status=none', 'oflag=seek_bytes', 'bs=64K'];
    execFileSync('dd', [`of=${this.devicePath}`, `seek=${offset}`, ...options], { input: bytes });
  }

  at(offset: number, length: number): Buffer {
    const options = ['status=none', 'iflag=skip_bytes,count_bytes'];
    return execFileSync('dd', [`if=${this.devicePath}`, `skip=${offset}`, `count=${length}`, ...options], {
      maxBuffer: 1 << 26,
    });
  }

  /** @param label empty: none */
  luksFormat(label: string, type = 'luks2'): void {
    const kdf = ['--pbkdf', 'pbkdf2', '--pbkdf-force-iterations', '1000'];
    const words = ['-q', '--disable-locks', 'luksFormat', '--type', type, ...kdf, '--key-file', '-'];
    const labels = label === '' ? [] : ['--label', label];
    execFileSync('cryptsetup', [...words, ...labels, this.devicePath], { input: other.bytes });
  }

  prepare(): Promise<{ readonly keyId: string | undefined }> {
    const { devicePath } = this;
    const device = deviceNumber(statSync(devicePath, { bigint: true }).rdev);
    const lower = { devicePath, device, readonly: false };
    return prepareDisk(parts, { handle, content: { type: 'block' }, lower, key, log });
  }

  async refuses(reason: RegExp): Promise<void> {
    execFileSync('sync', [this.image]);
    const before = digestOf(this.image);
    await assert.rejects(this.prepare(), (error: Error) => {
      assert.equal(error.name, 'FailedPrecondition', String(error));
      assert.match(error.message, /^volume database: .* cannot be encrypted: /);
      assert.match(error.message, reason);
      assert.ok(error.message.length <= 200, error.message);
      return true;
    });
    execFileSync('sync', [this.image]);
    assert.equal(digestOf(this.image), before);
  }
}

/** @returns the label, which names the key */
async function isMade(disk: Disk): Promise<string> {
  const { keyId = '' } = await disk.prepare();
  assert.match(keyId, /^key-[0-9a-f]{16}$/);
  assert.equal(disk.at(24, 20).toString(), keyId);
  assert.ok(await fitsLuks(disk.devicePath, key));
  // Its own block of the data: a raw block volume begins there.
  assert.ok(disk.at(luksHeaderBytes, mark.length).every((byte) => byte === 0));
  return keyId;
}

describe('the encryption of a disk that a PersistentVolume names', () => {
  test('is made once, if the disk is blank', async () => {
    using disk = new Disk('encryption');
    const keyId = await isMade(disk);
    const header = disk.at(0, luksHeaderBytes);
    assert.deepEqual(await disk.prepare(), { keyId });
    assert.ok(disk.at(0, luksHeaderBytes).equals(header));
  });

  const foreign: readonly (readonly [string, (disk: Disk) => void, RegExp])[] = [
    [
      'a filesystem',
      ({ devicePath }) => execFileSync('mkfs.ext4', ['-q', devicePath]),
      /it holds a filesystem \(ext4\)/,
    ],
    ['data at its beginning', (disk) => disk.put('a database', 300 << 10), /it holds data of an unknown kind/],
    ['data at its end', (disk) => disk.put('a database', (sizeMiB << 20) - 4096), /it holds data of an unknown kind/],
    [
      'the mark of an encryption, and data at its end',
      (disk) => {
        disk.put(mark, luksHeaderBytes);
        disk.put('a database', (sizeMiB << 20) - 4096);
      },
      /it holds data of an unknown kind/,
    ],
    [
      'the mark of an encryption, and a filesystem',
      (disk) => {
        execFileSync('mkfs.ext4', ['-q', disk.devicePath]);
        disk.put(mark, luksHeaderBytes);
      },
      /it holds a filesystem \(ext4\)/,
    ],
    [
      'the mark of an encryption, and data where its header would be',
      (disk) => {
        disk.put(mark, luksHeaderBytes);
        disk.put('a database', 4096);
      },
      /it holds data of an unknown kind/,
    ],
  ];
  for (const [what, make, reason] of foreign) {
    test(`is not made on one with ${what}`, async () => {
      using disk = new Disk('encryption');
      make(disk);
      await disk.refuses(reason);
    });
  }

  test('is not made on one that another device is made of', async () => {
    using disk = new Disk('encryption');
    execFileSync('losetup', ['--set-capacity', disk.devicePath]);
    const over = execFileSync('losetup', ['--find', '--show', disk.devicePath], { encoding: 'utf8' }).trim();
    try {
      await disk.refuses(/loop/);
    } finally {
      execFileSync('losetup', ['--detach', over]);
    }
  });

  test('is not made on one without room for data', async () => {
    using disk = new Disk('encryption');
    execFileSync('truncate', ['--size', '20M', disk.image]);
    execFileSync('losetup', ['--set-capacity', disk.devicePath]);
    await disk.refuses(/it has 20971520 bytes only/);
  });

  for (const [what, make] of [
    ['there is but its mark', (disk: Disk) => disk.put(mark, luksHeaderBytes)],
    [
      'its keys were being written',
      (disk: Disk) => {
        disk.put(mark, luksHeaderBytes);
        disk.put(randomBytes(1 << 20), 1 << 15);
      },
    ],
    ['it says so, also with another key', (disk: Disk) => disk.luksFormat(unfinishedLabel)],
    [
      'the second copy of its header says so, and there is no first',
      (disk: Disk) => {
        disk.luksFormat(unfinishedLabel);
        disk.put(Buffer.alloc(4096), 0);
      },
    ],
  ] as const) {
    test(`is made again if it was not finished: ${what}`, async () => {
      using disk = new Disk('encryption');
      make(disk);
      await isMade(disk);
    });
  }

  for (const [label, type] of [
    ['', 'luks1'],
    ['', 'luks2'],
    ['somebody', 'luks2'],
  ] as const) {
    test(`is left as it is if another program has made it: ${type} ${label}`, async () => {
      using disk = new Disk('encryption');
      disk.luksFormat(label, type);
      const header = disk.at(0, luksHeaderBytes);
      assert.deepEqual(await disk.prepare(), { keyId: undefined });
      assert.ok(disk.at(0, luksHeaderBytes).equals(header));
    });
  }

  test('is left as it is if the first copy of its header is damaged', async () => {
    using disk = new Disk('encryption');
    const keyId = await isMade(disk);
    disk.put(Buffer.alloc(4096), 0);
    assert.deepEqual(await disk.prepare(), { keyId });
    await addLuksKey(disk.devicePath, key, other);
    assert.ok(await fitsLuks(disk.devicePath, other));
  });
});
