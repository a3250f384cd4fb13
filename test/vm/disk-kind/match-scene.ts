import assert from 'node:assert/strict';
import { shapes } from '../../../src/cli/output/shapes.ts';
import { poolNameFor } from '../../../src/pool/kinds/disk/match/pool-name.ts';
import { eventually } from '../../support/eventually.ts';
import { capacityBytes } from '../faults/pool-sight.ts';
import type { GuestNode } from '../node/guest-node.ts';
import type { NodeSetup, StartedNode } from '../node/start-node.ts';
import { linkOf, prepareLinks } from './links.ts';

export const mebibyte = 1n << 20n;
/** On a busy machine; alone it takes seconds. */
export const patienceMs = 600_000;

/** By their names, in MiB: those that are free and match, and those that are passed over. */
export const freeDisks = { small: 64n, large: 128n };
const passedOver: Readonly<Record<string, RegExp>> = {
  filesystem: /^it holds a filesystem \(ext4\)$/,
  named: /^it is of pool named/,
  contested: /^pools big and both both match it, so neither takes it/,
  twin: /^sd. has the same identity$/,
};
const diskOf = (name: string, serial = name) => ({ name, serial, sizeGiB: 1 / 16, bus: 'scsi' }) as const;
const otherDisks = [...Object.keys(passedOver).map((name) => diskOf(name)), diskOf('other-twin', 'twin')];
export const diskCount = Object.keys(freeDisks).length + otherDisks.length + 1;

export const sections = {
  named: `named: { kind: disk, device: ${linkOf('named')} }`,
  big: 'big: { kind: disk, match: { bus: scsi, size: { minimum: 32Mi } }, labels: { media: hdd } }',
  both: "both: { kind: disk, match: { id: 'scsi-contested' } }",
};

export function configOf(...pools: readonly string[]): string {
  return `defaultPool: big\nexpansion: controller\npools:\n${pools.map((section) => `  ${section}\n`).join('')}`;
}

export const setup: NodeSetup = {
  config: configOf(sections.named, sections.big, sections.both),
  pools: ['named', 'big'],
  disks: [
    ...Object.entries(freeDisks).map(([name, size]) => ({ ...diskOf(name), sizeGiB: Number(size) / 1024 })),
    ...otherDisks,
    { ...diskOf('tiny'), sizeGiB: 1 / 64 },
  ],
  prepare: `${prepareLinks(diskCount)}\nmkfs.ext4 -q ${linkOf('filesystem')}`,
};

export interface ShownPool {
  readonly name: string;
  readonly state: string;
}

/** The pools that `holdfast pools` shows. */
export async function pools(node: GuestNode): Promise<ShownPool[]> {
  const { stdout } = await node.command('pools --json');
  return shapes.pools.parse(JSON.parse(stdout)).pools.map(({ name, state }) => ({ name, state }));
}

/** The pools of disks with these serial numbers, by what `holdfast disks` says of them. */
export async function poolsOn(node: GuestNode, ...serials: readonly string[]): Promise<string[]> {
  const { stdout } = await node.command('disks --json');
  const { disks } = shapes.disks.parse(JSON.parse(stdout));
  return serials.map((serial) => {
    const { identity } = disks.find((each) => each.serial === serial) ?? assert.fail(`there is no disk ${serial}`);
    return poolNameFor('big', { serial }, identity ?? assert.fail());
  });
}

/** All that is free and matches is taken, each by a pool of its own; nothing else is written to. */
export async function takesWhatIsFree({ disks, node }: StartedNode): Promise<void> {
  const names = ['filesystem', 'contested', 'twin', 'other-twin', 'tiny'];
  const untouched = disks.filter(({ name }) => names.includes(name));
  await node.vm.run('sync');
  const before = untouched.map((disk) => disk.writes);
  await eventually(async () => {
    assert.equal(await capacityBytes(node, 'big'), (freeDisks.large - 4n) * mebibyte);
    assert.equal(taken(node), 2);
    const told = reasonsIn(node);
    for (const [name, reason] of Object.entries(passedOver))
      assert.ok(
        told.some((each) => reason.test(each)),
        name,
      );
  }, patienceMs);
  assert.deepEqual(
    untouched.map((disk) => disk.writes),
    before,
    'what is passed over is not written to',
  );
}

/** How many disks drivers have made pools of. */
export function taken(node: GuestNode): number {
  return node.log().split('is a pool from now on').length - 1;
}

/** What an operator sees of all that. */
export async function showsWhatIsTaken(node: GuestNode): Promise<void> {
  const shown = await pools(node);
  const [small, large] = await poolsOn(node, 'small', 'large');
  assert.deepEqual(
    shown.map(({ name, state }) => `${name} ${state}`).sort(),
    [`${small} open`, `${large} open`, 'named open', 'both absent'].sort(),
  );
  const disks = await node.command('disks');
  assert.match(disks.stdout, /contested +yes +\S+; pools big and both match it: none takes it$/m);
  assert.match(disks.stdout, / small +no +it is of pool big-small-[a-z2-7]{6}; /m);
  const doctor = await node.command('doctor');
  assert.match(doctor.stdout, /fail +disk \/dev\/sd. +Change match of one of them/);
  assert.match(doctor.stdout, /ok +disk \/dev\/sd. +it matches big: it holds a filesystem \(ext4\)/);
}

/** Why the driver has passed over disks. */
export function reasonsIn(node: GuestNode): string[] {
  return node
    .log()
    .split('\n')
    .filter((line) => line.includes('a disk that matches is not taken'))
    .map((line) => String(JSON.parse(line).reason));
}

export interface Made {
  readonly id: string;
  readonly sizeBytes: bigint;
}

/** A raw block volume of a section. */
export async function make(node: GuestNode, name: string, sizeMebibytes: bigint, pool = 'big'): Promise<Made> {
  const { volume } = await node.client.controller.CreateVolume({
    name,
    capacity_range: { required_bytes: sizeMebibytes * mebibyte },
    volume_capabilities: [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    parameters: { pool },
  });
  return { id: volume?.volume_id ?? '', sizeBytes: volume?.capacity_bytes ?? 0n };
}
