import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { buildBundle } from '../../../scripts/build.ts';
import { formatArguments, openArguments } from '../../../src/command/cryptsetup.ts';
import { volumeIdFor } from '../../../src/volume/id.ts';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../../vm/disk/volatile-disk.ts';
import { makeMemoryDisks } from '../../vm/machine/memory-disks.ts';
import { bootVirtualMachine } from '../../vm/machine/virtual-machine.ts';
import { GuestNode, nodeId } from '../../vm/node/guest-node.ts';
import { GuestVolume, type GuestVolumeOptions } from '../../vm/node/guest-volume.ts';
import { type Site, sites } from './sites.ts';

const setup = fileURLToPath(new URL('../../../scripts/setup-vm.sh', import.meta.url));
const mebibyte = 2 ** 20;
const diskMiB = 160;
const volumeBytes = 96n << 20n;
const headerBytes = 16 * mebibyte;
/** All the disks, and as much again as a test has. */
const memoryMiB = 1024 + sites.length * diskMiB;
const keyFile = '/run/pool.key';

/**
 * A node in a virtual machine of which each site has its own disk. Its clock counts instructions: a rate says how many of them an
 * access takes, whatever the host does meanwhile.
 */
export interface DevicesNode extends AsyncDisposable {
  readonly node: GuestNode;
  readonly paths: Readonly<Record<Site, string>>;
}

const diskOf = (site: Site) => `/dev/sd${String.fromCharCode('a'.charCodeAt(0) + sites.indexOf(site))}`;

/** The pools of this configuration are made of them; `disk` takes one that has a permanent name only. */
const config = `defaultPool: lvm
pools:
  lvm: { kind: lvm, volumeGroup: plain }
  disk: { kind: disk, device: ${diskOf('disk')} }
  luks: { kind: lvm, volumeGroup: secret, encryption: { keyFile: ${keyFile} } }
`;

const volumes = {
  lvm: { name: 'lvm', pool: 'lvm', content: 'block' },
  disk: { name: 'disk', pool: 'disk', content: 'block' },
  'lvm with LUKS': { name: 'luks', pool: 'luks', content: 'block', encryption: 'luks2' },
} as const satisfies Partial<Record<Site, GuestVolumeOptions>>;

function linear(name: string, site: Site): string {
  const sectors = volumeBytes / 512n + BigInt(headerBytes / 512);
  return `dmsetup create ${name} --table '0 ${sectors} linear ${diskOf(site)} 2048'`;
}

/** As the driver does it, with the driver's own parameters. */
function crypt(name: string, devicePath: string): string {
  const key = { bytes: Buffer.of(), isRandom: true };
  const sizes = { dataOffsetBytes: headerBytes, headerBytes, sectorBytes: 512 };
  const names = { label: name, uuid: '$(cat /proc/sys/kernel/random/uuid)' };
  const format = formatArguments({ devicePath, ...names, ...sizes }, key);
  const open = openArguments({ devicePath, name });
  return [format, open].map((words) => `base64 -d ${keyFile} | cryptsetup ${words.join(' ')}`).join(' && ');
}

/** A virtual machine cannot be had everywhere. */
export function whyNoMachine(): string | undefined {
  const { status, stderr } = spawnSync('bash', [setup], { encoding: 'utf8' });
  return status === 0 ? undefined : stderr.trim();
}

export async function startDevicesNode(): Promise<DevicesNode> {
  await using stack = new AsyncDisposableStack();
  const scratch = stack.use(new Scratch('bench-devices'));
  const system = stack.use(new VolatileDisk(scratch, { name: 'system', sizeBytes: 1024 * mebibyte }));
  const { file: bundle } = await buildBundle(scratch.join('bundle'));
  const vm = stack.use(await bootVirtualMachine({ scratch, disks: [system], memoryMiB, clock: 'instructions' }));
  const node = new GuestNode({
    vm,
    scratch,
    program: `${process.execPath} ${bundle}`,
    config,
    pools: ['lvm', 'disk', 'luks'],
  });
  await node.format();
  await node.mount();
  const prepare = [
    makeMemoryDisks({ count: sites.length, sizeMiB: diskMiB }),
    `(umask 077; head -c 32 /dev/urandom | base64 >${keyFile})`,
    `lvm vgcreate --yes plain ${diskOf('lvm')}`,
    `lvm vgcreate --yes secret ${diskOf('lvm with LUKS')}`,
    linear('linear', 'linear'),
    crypt('crypt', diskOf('crypt')),
    linear('below', 'crypt over linear'),
    crypt('crypt-over-linear', '/dev/mapper/below'),
  ];
  await vm.run(`set -e\n${prepare.join('\n')}`);
  await node.start();
  const publish = async (options: GuestVolumeOptions) => {
    const volume = new GuestVolume(node, volumeIdFor(nodeId, options.pool, options.name), options);
    await volume.create(volumeBytes);
    await volume.use();
    return volume.targetPath;
  };
  const paths = {
    raw: diskOf('raw'),
    linear: '/dev/mapper/linear',
    crypt: '/dev/mapper/crypt',
    'crypt over linear': '/dev/mapper/crypt-over-linear',
    lvm: await publish(volumes.lvm),
    disk: await publish(volumes.disk),
    'lvm with LUKS': await publish(volumes['lvm with LUKS']),
  };
  const kept = stack.move();
  return { node, paths, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
