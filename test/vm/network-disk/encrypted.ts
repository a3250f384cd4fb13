/** For the virtual machine: disks that PersistentVolumes name, with encryption. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import pino from 'pino';
import { encryptable } from '../../../src/pool/layers/luks/named/kind.ts';
import type { NodeKind } from '../../../src/pool/node-side.ts';
import { parseHandle } from '../../../src/volume/handle.ts';
import { mapperName } from '../../../src/volume/mapper-name.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { blockCapability, mountCapability, type TestVolume } from '../../support/node-volume.ts';
import { refused } from '../../support/refused.ts';
import { Scratch } from '../../support/scratch.ts';
import { assertNowhere, newFindableKey } from '../luks/key-hunt.ts';

type Context = Readonly<Record<string, string>>;

/** One disk of 320 MiB, which `image` holds. */
export interface EncryptedDisk {
  /** @param scratch the directory of the node service */
  readonly kindIn: (scratch: Scratch) => NodeKind | Promise<NodeKind>;
  readonly context: Context;
  readonly image: string;
  readonly grow: (size: string) => void;
  /** Checks that no connection is left. */
  readonly nothingConnected: () => void;
  readonly cleanUp?: () => Promise<void>;
  /** The only handle that a PersistentVolume of it may have. */
  readonly handle?: string;
  /** Its target can go. */
  readonly target?: {
    /** The context for which the kernel waits for a day. */
    readonly patientContext: Context;
    readonly stop: () => void;
    readonly start: () => void;
  };
}

const ext4 = mountCapability('SINGLE_NODE_WRITER', [], 'ext4');
const text = 'a sentence that nobody may read on the disk of the target';

/** Makes the disk blank. */
export function blank(image: string): void {
  execFileSync('fallocate', ['--punch-hole', '--offset', '0', '--length', `${statSync(image).size}`, image]);
}

/** The parts of a disk that the driver would write to. The whole takes the virtual machine long. */
function digestOf(image: string): string {
  const file = openSync(image, 'r');
  const [front, end] = [Buffer.alloc(20 << 20), Buffer.alloc(1 << 20)];
  readSync(file, front, 0, front.length, 0);
  readSync(file, end, 0, end.length, statSync(image).size - end.length);
  closeSync(file);
  return createHash('sha256').update(front).update(end).digest('hex');
}

export function describeEncryptedDisk(disk: EncryptedDisk): void {
  const volume_context = { ...disk.context, encryption: 'luks2' };
  const key = newFindableKey();
  const secrets = { key };
  const handleOf = (name: string) => disk.handle ?? name;
  /** The start of messages about a volume. */
  const about = (name: string, words: string) => new RegExp(`^volume ${handleOf(name)}: ${words}`);
  let scratch: Scratch;
  let harness: ContextHarness;
  let logged = '';
  const errors: string[] = [];

  const kinds = async () => [encryptable(await disk.kindIn(scratch))];
  const volumeNamed = (name: string, capability: TestVolume['capability'] = ext4) =>
    harness.volume(handleOf(name), capability);
  const mappers = () => execFileSync('dmsetup', ['ls'], { encoding: 'utf8' });
  const nothingLeft = async () => {
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
    assert.doesNotMatch(mappers(), /holdfast/);
    await eventually(() => disk.nothingConnected());
  };
  const denied = async (call: Promise<unknown>, code: string, message: RegExp) => {
    await call.catch((error: unknown) => errors.push(String(error)));
    await refused(call, code, message);
  };

  before(() => void execFileSync('modprobe', ['dm-crypt']));
  beforeEach(async () => {
    const sink = new Writable({
      write(chunk, _encoding, done) {
        logged += String(chunk);
        done();
      },
    });
    scratch = new Scratch('encrypted');
    harness = await ContextHarness.open(await kinds(), scratch, pino({ level: 'trace' }, sink));
  });
  afterEach(async () => {
    await harness[Symbol.asyncDispose]();
    await disk.cleanUp?.();
  });

  describe('an encrypted disk', () => {
    test('is made of a blank one, lives, grows, and shows its data to no one without its key', async () => {
      const volume = volumeNamed('db/1');
      await volume.up(volume_context, secrets);
      writeFileSync(join(volume.target, 'file'), text, { flush: true });
      // Again, and by a driver that was started since.
      await volume.stage({ volume_context, secrets });
      await harness.restart(await kinds());
      await volume.stage({ volume_context, secrets });
      assert.match(mappers(), new RegExp(mapperName(parseHandle(handleOf('db/1')) ?? assert.fail())));
      assert.equal((await volume.stats()).volume_condition?.abnormal, false);
      await denied(volume.expand(1n << 30n), 'OUT_OF_RANGE', /grow it( on the target)? first/);
      disk.grow('400M');
      assert.deepEqual(await volume.expand(400n << 20n), { capacity_bytes: 400n << 20n });
      const [{ total } = { total: 0n }] = (await volume.stats()).usage;
      assert.ok(total > 340n << 20n, `${total}`);
      await volume.down();
      await nothingLeft();
      execFileSync('sync');
      assert.ok(!readFileSync(disk.image).includes(text));
      await volume.up(volume_context, secrets);
      assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), text);
      await volume.down();
      await nothingLeft();
    });

    test('stays as it is for a call with a wrong key or none, or without encryption, and for another use', async () => {
      const before = digestOf(disk.image);
      const volume = volumeNamed('refused');
      const stage = (changes: Context, given: Context) =>
        volume.stage({ volume_context: { ...disk.context, ...changes }, secrets: given });
      const luks2 = { encryption: 'luks2' };
      const wrong = { key: randomBytes(32).toString('base64') };
      await denied(
        stage(luks2, wrong),
        'FAILED_PRECONDITION',
        about('refused', 'the key .* it needs key-[0-9a-f]{16}'),
      );
      await denied(stage(luks2, {}), 'INVALID_ARGUMENT', /no secret came: name one.*nodeStageSecretRef/);
      await denied(stage(luks2, { other: 'word' }), 'INVALID_ARGUMENT', /The secret has other, and neither key/);
      await denied(stage({}, {}), 'FAILED_PRECONDITION', /is encrypted, .* add encryption: luks2/);
      await denied(stage({ encryption: 'aes' }, secrets), 'INVALID_ARGUMENT', /it can be luks2, or left out/);
      const shared = volumeNamed('shared', blockCapability('MULTI_NODE_MULTI_WRITER'));
      await denied(shared.stage({ volume_context, secrets }), 'FAILED_PRECONDITION', /MULTI_NODE_MULTI_WRITER/);
      await nothingLeft();
      assert.equal(digestOf(disk.image), before);
    });

    test('changes its key', async () => {
      const [newKey, volume] = [newFindableKey(), volumeNamed('db/1')];
      await volume.stage({ volume_context, secrets: { key: newKey, previousKey: key } });
      await volume.unstage();
      await denied(volume.stage({ volume_context, secrets }), 'FAILED_PRECONDITION', /it needs key-/);
      await volume.stage({ volume_context, secrets: { key: newKey } });
      await volume.unstage();
      await nothingLeft();
    });

    test('is a raw block device', async () => {
      blank(disk.image);
      const volume = volumeNamed('raw', blockCapability());
      await volume.up(volume_context, secrets);
      const device = openSync(volume.target, 'r+');
      writeSync(device, Buffer.alloc(4096, text), 0, 4096, 0);
      closeSync(device);
      await harness.restart(await kinds());
      await volume.down();
      await nothingLeft();
      execFileSync('sync');
      assert.ok(!readFileSync(disk.image).includes(text));
      await volume.up(volume_context, secrets);
      const again = openSync(volume.target, 'r');
      const bytes = Buffer.alloc(4096);
      readSync(again, bytes, 0, 4096, 0);
      closeSync(again);
      assert.ok(bytes.equals(Buffer.alloc(4096, text)));
      await volume.down();
      await nothingLeft();
    });

    test('is not made of one that has data', async () => {
      const volume = volumeNamed('foreign');
      const stage = () => volume.stage({ volume_context, secrets });
      for (const [make, reason] of [
        [
          () => execFileSync('mkfs.ext4', ['-q', '-F', '-b', '4096', disk.image]),
          about('foreign', '.* cannot be encrypted: it holds a filesystem \\(ext4\\)\\. Only a blank disk is'),
        ],
        [() => writeAt(disk.image, 'a database', 300 * 1024), /it holds data of an unknown kind/],
        [() => writeAt(disk.image, 'its end', statSync(disk.image).size - 4096), /it holds data of an unknown kind/],
      ] as const) {
        blank(disk.image);
        make();
        const before = digestOf(disk.image);
        await denied(stage(), 'FAILED_PRECONDITION', reason);
        assert.equal(digestOf(disk.image), before);
        await nothingLeft();
      }
    });

    for (const type of ['luks1', 'luks2']) {
      test(`is opened if another program has made it: ${type}`, async () => {
        blank(disk.image);
        const passphrase = 'from another driver';
        const light = type === 'luks1' ? [] : ['--pbkdf-memory', '32768'];
        const cryptsetup = (...words: string[]) =>
          execFileSync('cryptsetup', ['-q', '--key-file', '-', ...words], { input: passphrase });
        cryptsetup('luksFormat', '--type', type, '--iter-time', '50', ...light, disk.image);
        cryptsetup('open', disk.image, 'by-hand');
        execFileSync('mkfs.ext4', ['-q', '-b', '4096', '/dev/mapper/by-hand']);
        execFileSync('cryptsetup', ['close', 'by-hand']);
        const volume = volumeNamed('brought');
        await denied(volume.stage({ volume_context, secrets }), 'FAILED_PRECONDITION', /does not open it: correct/);
        await volume.stage({ volume_context, secrets: { passphrase } });
        await volume.unstage();
        await nothingLeft();
      });
    }

    const { target } = disk;
    if (target !== undefined) {
      test('is let go of a target that is gone, long before the kernel gives that up', async () => {
        blank(disk.image);
        const patient = { ...target.patientContext, encryption: 'luks2' };
        const volume = volumeNamed('dead');
        await volume.up(patient, secrets);
        writeFileSync(join(volume.target, 'file'), 'acknowledged', { flush: true });
        writeFileSync(join(volume.target, 'dirty'), 'not acknowledged');
        target.stop();
        await volume.unpublish();
        // The kubelet asks again and again.
        await eventually(async () => void (await volume.unstage()), 300_000);
        await nothingLeft();
        target.start();
        await volume.up(patient, secrets);
        assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'acknowledged');
        await volume.down();
        await nothingLeft();
      });
    }

    test('has its key in no log, error or note, nor on the disk', () => {
      assert.match(logged, /the encryption of a blank disk was made/);
      assert.ok(errors.length > 5);
      using hunt = new Scratch('hunt');
      assertNowhere([key], { logged, errors: errors.join('\n') }, hunt, [disk.image]);
    });
  });
}

function writeAt(path: string, words: string, offset: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, words, offset);
  closeSync(file);
}
