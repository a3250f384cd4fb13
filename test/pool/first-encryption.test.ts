import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { addLuksKey, fitsLuks, formatArguments, type KeyMaterial } from '../../src/command/cryptsetup.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { deviceNumber } from '../../src/kernel/device.ts';
import { type PreparedDisk, prepareDisk, requirePrepared } from '../../src/pool/layers/luks/named/first-use.ts';
import { markOf, markPlaces } from '../../src/pool/layers/luks/named/marks.ts';
import { LuksPrograms } from '../../src/pool/layers/luks/programs.ts';
import { replaceKey } from '../../src/pool/layers/luks/rekey.ts';
import { luksHeaderBytes } from '../../src/volume/encryption.ts';
import { parseHandle } from '../../src/volume/handle.ts';
import { attachDisk, digestOf, sparseFile } from '../support/disk.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('disk', 4);
const parts = { queue, programs: new LuksPrograms(queue) };
const handle = parseHandle('database') ?? assert.fail();
const key: KeyMaterial = { bytes: randomBytes(32), isRandom: true };
const other: KeyMaterial = { bytes: randomBytes(32), isRandom: true };
const sizeMiB = 64;
const mark = markOf(randomUUID());

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

  get lower() {
    return lowerOf(this.devicePath);
  }

  get uuid(): string {
    return execFileSync('cryptsetup', ['luksUUID', '--disable-locks', this.devicePath], { encoding: 'utf8' }).trim();
  }

  use(current: KeyMaterial, isReadonly: boolean) {
    const keys = { current, previous: undefined };
    return { handle, content: { type: 'block' }, lower: this.lower, keys, isReadonly, log: quiet } as const;
  }

  prepare(current = key, isReadonly = false, programs = parts.programs): Promise<PreparedDisk> {
    return prepareDisk({ queue, programs }, this.use(current, isReadonly));
  }

  /** A partition table of a disk with a small filesystem in its first partition. */
  partition(type: 'dos' | 'gpt'): void {
    if (type === 'gpt') this.put('EFI PART', 512);
    const entry = Buffer.from([0, 0, 2, 0, type === 'gpt' ? 0xee : 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0x50, 0, 0]);
    this.put(Buffer.concat([entry, Buffer.alloc(48), Buffer.from([0x55, 0xaa])]), 446);
    execFileSync('mkfs.ext4', ['-q', '-F', '-E', `offset=${1 << 20}`, this.devicePath, '10M']);
  }

  /** cryptsetup whose writes fail from one of them on, as if it had been killed before. @returns false: there are not so many */
  cryptsetupCutBefore(write: number, words: readonly string[]): boolean {
    const calls = 'write,pwrite64,writev,pwritev';
    const inject = ['-e', `trace=${calls}`, '-e', `inject=${calls}:error=EIO:when=${write}+`];
    const strace = ['-f', '-o', '/dev/null', ...inject, 'cryptsetup', ...words];
    return spawnSync('strace', strace, { input: key.bytes }).status !== 0;
  }

  async refuses(reason: RegExp, isReadonly = false): Promise<void> {
    execFileSync('sync', [this.image]);
    const before = digestOf(this.image);
    await assert.rejects(this.prepare(key, isReadonly), (error: Error) => {
      assert.equal(error.name, 'FailedPrecondition', String(error));
      assert.match(error.message, /^volume database: \/dev\/loop/);
      assert.match(error.message, /Nothing was changed\.$/);
      assert.match(error.message, reason);
      assert.ok(error.message.length <= 200, error.message);
      return true;
    });
    execFileSync('sync', [this.image]);
    assert.equal(digestOf(this.image), before);
  }
}

function lowerOf(devicePath: string) {
  return { devicePath, device: deviceNumber(statSync(devicePath, { bigint: true }).rdev), readonly: false };
}

/** The same disk, as another node sees it. */
class Twin {
  readonly lower: ReturnType<typeof lowerOf>;

  constructor({ image }: Disk) {
    this.lower = lowerOf(attachDisk(image));
  }

  [Symbol.dispose](): void {
    execFileSync('losetup', ['--detach', this.lower.devicePath]);
  }
}

const busyElsewhere = { name: 'Unavailable', message: /^volume database: another node encrypts \/dev\/loop/ };

/** @returns the label, which names the key */
async function isMade(disk: Disk): Promise<string> {
  const { keyId = '', uuid } = await disk.prepare();
  assert.equal(uuid, disk.uuid);
  assert.match(keyId, /^key-[0-9a-f]{16}$/);
  assert.equal(disk.at(24, 20).toString(), keyId);
  assert.ok(await fitsLuks(disk.devicePath, key));
  // Its own block of the data: a raw block volume begins there.
  for (const place of [markPlaces.data, markPlaces.header]) {
    assert.ok(disk.at(place, mark.length).every((byte) => byte === 0));
  }
  return keyId;
}

describe('the encryption of a disk that a PersistentVolume names', () => {
  test('is made once, if the disk is blank', async () => {
    using disk = new Disk('encryption');
    const keyId = await isMade(disk);
    const header = disk.at(0, luksHeaderBytes);
    assert.deepEqual(await disk.prepare(), { keyId, uuid: disk.uuid });
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
        disk.put(mark, markPlaces.data);
        disk.put('a database', (sizeMiB << 20) - 4096);
      },
      /it holds data of an unknown kind/,
    ],
    [
      'the mark of an encryption, and a filesystem',
      (disk) => {
        execFileSync('mkfs.ext4', ['-q', disk.devicePath]);
        disk.put(mark, markPlaces.data);
      },
      /it holds a filesystem \(ext4\)/,
    ],
    [
      'the mark of an encryption, and data where its header would be',
      (disk) => {
        disk.put(mark, markPlaces.data);
        disk.put('a database', 4096);
      },
      /it holds data of an unknown kind/,
    ],
    [
      'the mark of an encryption, and data behind it',
      (disk) => {
        disk.put(mark, markPlaces.data);
        disk.put('a database', markPlaces.data + 4096);
      },
      /it holds data at byte 16777216/,
    ],
    [
      'a header that was made here, a partition table, and a filesystem in a partition',
      (disk) => {
        disk.luksFormat('');
        disk.put(mark, markPlaces.header);
        disk.partition('dos');
      },
      /it holds /,
    ],
    [
      'a header that was being made, a partition table, and a filesystem in a partition',
      (disk) => {
        disk.luksFormat('');
        disk.put(mark, markPlaces.data);
        disk.partition('dos');
      },
      /it holds /,
    ],
    [
      'a header that was made here, and another partition table',
      (disk) => {
        disk.luksFormat('');
        disk.put(mark, markPlaces.header);
        disk.partition('gpt');
      },
      /it holds /,
    ],
    [
      'a header that was made here, and a filesystem over it',
      (disk) => {
        disk.luksFormat('');
        disk.put(mark, markPlaces.header);
        execFileSync('mkfs.ext4', ['-q', '-F', disk.devicePath]);
      },
      /it holds /,
    ],
    ['data where its header would end', (disk) => disk.put('a database', 9 << 20), /it holds data at byte 9437184/],
    ['data in its middle', (disk) => disk.put(Buffer.alloc(1 << 20, 'x'), 40 << 20), /it holds data at byte 4/],
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
    ['there is but its mark', (disk: Disk) => disk.put(mark, markPlaces.data)],
    [
      'its keys were being written',
      (disk: Disk) => {
        disk.put(mark, markPlaces.data);
        disk.put(randomBytes(1 << 20), 1 << 15);
      },
    ],
    [
      'its header is there, with another key',
      (disk: Disk) => {
        disk.luksFormat('');
        disk.put(mark, markPlaces.data);
      },
    ],
    [
      'both marks are there',
      (disk: Disk) => {
        disk.luksFormat('');
        disk.put(mark, markPlaces.header);
        disk.put(mark, markPlaces.data);
      },
    ],
  ] as const) {
    test(`is made again if it was not finished: ${what}`, async () => {
      using disk = new Disk('encryption');
      make(disk);
      await isMade(disk);
    });
  }

  test('keeps its header if only its filesystem was not finished', async () => {
    using disk = new Disk('encryption');
    const { keyId, uuid } = await disk.prepare();
    disk.put(mark, markPlaces.header);
    assert.deepEqual(await disk.prepare(other), { keyId, uuid });
    assert.ok(await fitsLuks(disk.devicePath, key));
    assert.ok(disk.at(markPlaces.header, mark.length).every((byte) => byte === 0));
  });

  test('is made again wherever cryptsetup was cut short', async () => {
    using disk = new Disk('encryption');
    const layout = { dataOffsetBytes: luksHeaderBytes, headerBytes: markPlaces.header, sectorBytes: 512 };
    const format = { ...layout, devicePath: disk.devicePath, label: 'key-0000000000000000' };
    let cuts = 0;
    for (let write = 1; ; write += 5, cuts++) {
      disk.put(Buffer.alloc(luksHeaderBytes), 0);
      disk.put(mark, markPlaces.data);
      if (!disk.cryptsetupCutBefore(write, formatArguments({ ...format, uuid: randomUUID() }, key))) break;
      await isMade(disk);
    }
    assert.ok(cuts >= 3, `${cuts}`);
  });

  for (const [what, put] of [
    ['blank', () => undefined],
    ['begun', (disk: Disk) => disk.put(mark, markPlaces.data)],
    [
      'without its filesystem',
      (disk: Disk) => {
        disk.luksFormat('');
        disk.put(mark, markPlaces.header);
      },
    ],
  ] as const) {
    test(`is not made, nor finished, for a use that only reads: ${what}`, async () => {
      using disk = new Disk('encryption');
      put(disk);
      await disk.refuses(/is wanted for reading only/, true);
    });
  }

  test('is opened for a use that only reads', async () => {
    using disk = new Disk('encryption');
    const made = await disk.prepare();
    assert.deepEqual(await disk.prepare(key, true), made);
  });

  for (const [what, change] of [
    ['begins', (disk: Disk) => disk.put(markOf(randomUUID()), markPlaces.data)],
    ['goes on', (disk: Disk) => disk.luksFormat('')],
  ] as const) {
    test(`is given up when another node ${what} meanwhile`, async () => {
      using disk = new Disk('encryption');
      class Interrupted extends LuksPrograms {
        override async cryptsetup<T>(work: () => Promise<T>): Promise<T> {
          const result = await super.cryptsetup(work);
          change(disk);
          return result;
        }
      }
      const { image } = disk;
      await assert.rejects(disk.prepare(key, false, new Interrupted(queue)), busyElsewhere);
      execFileSync('sync', [image]);
      // The other one can finish it.
      assert.notDeepEqual(disk.at(markPlaces.data, mark.length), Buffer.alloc(mark.length));
    });
  }

  test('is not used if another node has made one since', async () => {
    using disk = new Disk('encryption');
    const made = await disk.prepare();
    const isStill = () => requirePrepared(queue, handle, disk.lower, made);
    await isStill();
    disk.put(mark, markPlaces.header);
    await assert.rejects(isStill, busyElsewhere);
    disk.put(Buffer.alloc(mark.length), markPlaces.header);
    await isStill();
    disk.luksFormat('');
    await assert.rejects(isStill, busyElsewhere);
  });

  test('is made by one of two nodes', async () => {
    for (const pauseMs of [0, 50, 150]) {
      using disk = new Disk('encryption');
      using twin = new Twin(disk);
      const use = async (each: Disk | Twin) => {
        const prepared = await prepareDisk(parts, { ...disk.use(key, false), lower: each.lower });
        await requirePrepared(queue, handle, each.lower, prepared);
        return prepared.uuid;
      };
      const [first, second] = await Promise.allSettled([use(disk), delay(pauseMs).then(() => use(twin))]);
      const uuids = [first, second].flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
      assert.ok(new Set(uuids).size <= 1, `${uuids}`);
      for (const uuid of uuids) assert.equal(disk.uuid, uuid);
    }
  });

  test('keeps a key of LUKS 1, and says so', async () => {
    using disk = new Disk('encryption');
    disk.luksFormat('', 'luks1');
    const header = disk.at(0, luksHeaderBytes);
    const change = (current: KeyMaterial, previous: KeyMaterial) =>
      replaceKey(parts, { id: handle }, disk.devicePath, { current, previous });
    // It has been changed by hand.
    await change(other, key);
    await assert.rejects(change(key, other), {
      name: 'FailedPrecondition',
      message:
        'volume database: a key of LUKS 1 is not changed here: run cryptsetup luksChangeKey (or convert), then take the previous key out of the Secret. Nothing was changed.',
    });
    assert.ok(disk.at(0, luksHeaderBytes).equals(header));
  });

  for (const [what, later] of [
    ['a change of its key that is killed', (path: string) => addLuksKey(path, key, other)],
    ['a look of a person with cryptsetup', async (path: string) => void execFileSync('cryptsetup', ['luksDump', path])],
  ] as const) {
    test(`is not made again after the name of its key was written in part, and ${what}`, async () => {
      using disk = new Disk('encryption');
      const words = ['-q', '--disable-locks', 'config', '--label', 'key-0011223344556677', disk.devicePath];
      let cuts = 0;
      for (let write = 1; ; write++, cuts++) {
        disk.put(Buffer.alloc(luksHeaderBytes), 0);
        const { uuid } = await disk.prepare();
        if (!disk.cryptsetupCutBefore(write, words)) break;
        // It is in use from now on.
        assert.equal((await disk.prepare()).uuid, uuid);
        await later(disk.devicePath);
        assert.equal((await disk.prepare()).uuid, uuid, `cut before write ${write}`);
        assert.equal(disk.uuid, uuid);
        assert.ok(await fitsLuks(disk.devicePath, key));
      }
      assert.ok(cuts >= 3, `${cuts}`);
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
      assert.deepEqual(await disk.prepare(), { keyId: undefined, uuid: disk.uuid });
      assert.ok(disk.at(0, luksHeaderBytes).equals(header));
    });
  }

  test('is left as it is if the first copy of its header is damaged', async () => {
    using disk = new Disk('encryption');
    const keyId = await isMade(disk);
    disk.put(Buffer.alloc(4096), 0);
    assert.deepEqual(await disk.prepare(), { keyId, uuid: disk.uuid });
    await addLuksKey(disk.devicePath, key, other);
    assert.ok(await fitsLuks(disk.devicePath, other));
  });
});
