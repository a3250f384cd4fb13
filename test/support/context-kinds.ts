import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { deviceNumber, sameDevice } from '../../src/kernel/device.ts';
import type { NodeKind, NodeSide, VolumeOnNode } from '../../src/pool/node-side.ts';
import { accessModes } from '../../src/volume/capability.ts';
import { InvalidArgument } from '../../src/volume/errors.ts';
import { detachLoopDevice } from './left-behind.ts';

/*
 * Kinds for volumes that a context describes, over what every Linux host has: real devices and real mounts, and no
 * server.
 */

/** A filesystem that several PersistentVolumes may name, as an export: `source` is what holds it. */
export const exportKind: NodeKind = {
  name: 'export',
  traits: { detaching: 'automatic', accessModes },
  namingKeys: ['source'],
  keys: ['source', 'server'],
  read(context, { access }) {
    if (access === 'block') throw new InvalidArgument('an export has no raw block volumes.');
    requireKey(context, 'source');
    return { content: { type: 'directory' } };
  },
  shows({ context }, { mount }) {
    if (mount === undefined || mount.source !== context['source']) return undefined;
    return mount.root === '/' ? 'whole' : 'part';
  },
  serverOf: ({ context }) => context['server'] ?? 'here',
  async open({ server }): Promise<NodeSide> {
    const mountable = ({ context }: VolumeOnNode) => {
      return { kind: 'mountable', fsType: 'ext4', options: [], source: requireKey(context, 'source') } as const;
    };
    return {
      name: `export ${server}`,
      attach: async (volume) => ({ ...mountable(volume), release: async () => undefined }),
      attached: async (volume) => [mountable(volume)],
      condition: async () => ({ abnormal: false, message: `${server} answers.` }),
    };
  },
};

/** A device that stays until it is detached, as that of a LUN: a loop device over `image`. */
export const lunKind: NodeKind = {
  name: 'lun',
  traits: { detaching: 'explicit', accessModes },
  namingKeys: ['image'],
  keys: ['image'],
  read(context, { access, fsType }) {
    requireKey(context, 'image');
    if (access === 'block') return { content: { type: 'block' } };
    if (fsType === 'nfs' || fsType === 'nfs4') throw new InvalidArgument('a lun holds a filesystem of its own.');
    return { content: { type: 'mount', fsType: fsType ?? 'ext4' } };
  },
  shows({ context }, { device }) {
    const shown = device !== undefined && devicesOf(context).some((each) => sameDevice(each.device, device));
    return shown ? 'whole' : undefined;
  },
  serverOf: () => 'here',
  diskOf: ({ context }) => requireKey(context, 'image'),
  async open({ queue }): Promise<NodeSide> {
    return {
      name: 'lun here',
      async attach({ context }) {
        if (devicesOf(context).length === 0) run('losetup', '--find', '--show', requireKey(context, 'image'));
        const [found] = devicesOf(context);
        if (found === undefined) throw new Error('no loop device');
        const descriptor = await openReadOnly(queue, found.devicePath);
        return { ...found, descriptor, release: () => descriptor[Symbol.asyncDispose]() };
      },
      attached: async ({ context }) => devicesOf(context),
      async detach(_volume, attached) {
        if (attached.kind === 'device') detachLoopDevice(attached.devicePath);
      },
      async grow({ context }, sizeBytes) {
        for (const { devicePath } of devicesOf(context)) run('losetup', '--set-capacity', devicePath);
        return sizeBytes;
      },
    };
  },
};

function devicesOf(context: VolumeOnNode['context']) {
  const names = run('losetup', '--noheadings', '--output', 'NAME', '--associated', requireKey(context, 'image'));
  return names
    .split('\n')
    .filter((name) => name.trim() !== '')
    .map((name) => {
      const devicePath = name.trim();
      const device = deviceNumber(statSync(devicePath, { bigint: true }).rdev);
      return { kind: 'device', devicePath, device, readonly: false } as const;
    });
}

function requireKey(context: VolumeOnNode['context'], key: string): string {
  const value = context[key];
  if (value === undefined) throw new InvalidArgument(`volumeAttributes: ${key} is missing.`);
  return value;
}

function run(program: string, ...words: string[]): string {
  return execFileSync(program, words, { encoding: 'utf8' });
}
