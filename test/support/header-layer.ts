import { execFileSync } from 'node:child_process';
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { format } from '../../src/command/mkfs.ts';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { readMountTable } from '../../src/kernel/mount/mount-table.ts';
import { mountsOf } from '../../src/pool/attached-mounts.ts';
import type { Attacher, Backend, Draft, Layer, NewData, Provisioner, Recorded } from '../../src/pool/backend.ts';
import type { Attached, Attachment, Traits } from '../../src/pool/pool.ts';
import { DataLoss, InternalError } from '../../src/volume/errors.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { detachLoopDevice } from './left-behind.ts';
import { attachedLoopOver, type LoopSeen } from './loop-over.ts';

const headerBytes = 1 << 20;
const magic = Buffer.from('a layer of Holdfast');

/** Something with a size, as the backend below has it. */
function below<T extends { readonly sizeBytes: bigint }>(sized: T): T {
  return { ...sized, sizeBytes: sized.sizeBytes + BigInt(headerBytes) };
}

function belowRecorded(object: Recorded): Recorded {
  return object.kind === 'volume'
    ? { kind: 'volume', record: below(object.record) }
    : { kind: 'snapshot', record: below(object.record) };
}

/**
 * The shape of an encryption: a header of its own at the beginning of the data, and another device over that which the
 * backend below shows. It goes by itself, or does not.
 */
export const withHeader: Layer<Traits['detaching']> = (inner, detaching) => {
  const { provisioner, snapshotDraft } = inner;
  return over<Backend>(inner, {
    traits: { ...inner.traits, detaching },
    provisioner: over<Provisioner>(provisioner, {
      draft: (id, options) => {
        const draft = provisioner.draft(id, options);
        const showing = <T>(work: (devicePath: string) => Promise<T>) => {
          if (draft.withDevice === undefined) throw new InternalError('a layer needs devices below it');
          return draft.withDevice(4096, work);
        };
        return over(draft, {
          clone: (source) => draft.clone(belowRecorded(source)),
          async make(record, data) {
            await draft.make(record, below<NewData>({ ...data, content: { type: 'block' }, mkfsArguments: [] }));
            await showing((devicePath) => prepare(devicePath, data));
          },
          // The header came with the data.
          complete: (record, data) => draft.complete(record, below({ ...data, content: { type: 'block' } })),
        });
      },
      verify: (object) => provisioner.verify(belowRecorded(object)),
      conditionOf: (record) => provisioner.conditionOf(below(record)),
      grow: (record) => provisioner.grow(below(record)),
      async sizeOf(id) {
        const sizeBytes = await provisioner.sizeOf(id);
        return sizeBytes && sizeBytes - BigInt(headerBytes);
      },
    }),
    snapshotDraft:
      snapshotDraft &&
      ((id) => {
        const draft = snapshotDraft(id);
        return over(draft, {
          clone: (source: Recorded): ReturnType<Draft['clone']> => draft.clone(belowRecorded(source)),
        });
      }),
    attacher: overDevices(inner, detaching),
    extras: {},
  });
};

async function prepare(devicePath: string, { content, ...data }: NewData): Promise<void> {
  const file = openSync(devicePath, 'r+');
  writeSync(file, magic, 0, magic.length, 0);
  fsyncSync(file);
  closeSync(file);
  if (content.type !== 'mount') return;
  const upper = attachOver(devicePath, 4096);
  try {
    const { mkfsArguments: extraArguments, sizeBytes } = data;
    await format({ path: upper, fsType: content.fsType, blockSizeBytes: 4096, sizeBytes, extraArguments });
  } finally {
    detachLoopDevice(upper);
  }
}

/** A device over another one, behind its header. It stays until it is detached. */
function attachOver(devicePath: string, blockSizeBytes: number): string {
  const start = Buffer.alloc(magic.length);
  const file = openSync(devicePath, 'r');
  readSync(file, start, 0, start.length, 0);
  closeSync(file);
  if (!start.equals(magic)) throw new DataLoss(`${devicePath} has no header.`);
  const options = ['--offset', `${headerBytes}`, '--sector-size', `${blockSizeBytes}`];
  return execFileSync('losetup', ['--find', '--show', ...options, devicePath], { encoding: 'utf8' }).trim();
}

function overDevices({ attacher, queue }: Backend, detaching: Traits['detaching']): Attacher {
  const upperOf = async (lower: Attached): Promise<LoopSeen[]> =>
    lower.kind === 'device' ? attachedLoopOver(queue, lower.devicePath) : [];
  const attached = async (id: VolumeId): Promise<Attached[]> => {
    const lower = await attacher.attached(id);
    return (await Promise.all(lower.map(upperOf))).flat().map((upper) => ({ kind: 'device', ...upper }));
  };
  const all = async (): Promise<Attached[]> => {
    const uppers = (await Promise.all((await attacher.all()).map(upperOf))).flat();
    return uppers.map((each) => ({ kind: 'device', ...each }));
  };
  const detach = async (upper: Attached): Promise<VolumeId | undefined> => {
    if (upper.kind !== 'device') return undefined;
    for (const lower of await attacher.all()) {
      if (!(await upperOf(lower)).some(({ devicePath }) => devicePath === upper.devicePath)) continue;
      const device = lower.kind === 'device' ? lower.device : undefined;
      const seen = await attacher.volumeSeen({ device, mount: undefined });
      detachLoopDevice(upper.devicePath);
      await attacher.detach(lower);
      return seen?.id;
    }
    return undefined;
  };
  const own: Partial<Attacher> = {
    all,
    attached,
    async attach(record, options): Promise<Attachment> {
      const lower = await attacher.attach(below(record), options);
      if (lower.kind !== 'device') throw new InternalError('a layer needs devices below it');
      const [found] = await upperOf(lower);
      const devicePath = found?.devicePath ?? attachOver(lower.devicePath, record.blockSizeBytes);
      const [upper] = await upperOf(lower);
      if (upper === undefined) throw new InternalError(`${devicePath} is gone`);
      const descriptor = await openReadOnly(queue, devicePath);
      // While it is open it only gets the mark that it goes with its last user.
      const goesByItself = detaching === 'automatic' && !options.persistent;
      if (goesByItself && found === undefined) detachLoopDevice(devicePath);
      await lower.release();
      return { kind: 'device', ...upper, descriptor, release: () => descriptor[Symbol.asyncDispose]() };
    },
    async inUse(id) {
      const upper = await attached(id);
      return upper.length > 0 ? upper : attacher.inUse(id);
    },
    async detach(upper) {
      await detach(upper);
    },
    async detachOrphans() {
      const table = await readMountTable(queue);
      const orphans: VolumeId[] = [];
      for (const upper of await all()) {
        if (table.some(await mountsOf(queue, [upper], table))) continue;
        const id = await detach(upper);
        if (id !== undefined) orphans.push(id);
      }
      return orphans;
    },
    async volumeSeen(seen) {
      for (const lower of await attacher.all()) {
        const isOver = (await upperOf(lower)).some(({ device }) => device.minor === seen.device?.minor);
        if (isOver && lower.kind === 'device') return attacher.volumeSeen({ ...seen, device: lower.device });
      }
      return undefined;
    },
    async grown(id) {
      await attacher.grown?.(id);
      for (const each of await attached(id)) {
        if (each.kind === 'device') execFileSync('losetup', ['--set-capacity', each.devicePath]);
      }
    },
  };
  return over(attacher, own);
}

/** The same object but for some of its members. */
function over<T extends object>(inner: T, members: Partial<T>): T {
  return new Proxy(inner, {
    get(target, name) {
      const value: unknown = Reflect.get(name in members ? members : target, name, name in members ? members : target);
      return typeof value === 'function' ? value.bind(name in members ? members : target) : value;
    },
  });
}
