import type { Move, Pool, Snapshot, Trashed, Volume } from '../../../src/page/browser/types.ts';
import { snapshotIdFor, volumeIdFor } from '../../../src/volume/id.ts';

/** What a simulated node answers: objects as a real driver's, with names and figures that a test chooses. */
export interface CrowdNode {
  readonly name: string;
  readonly pools: readonly Omit<Pool, 'node'>[];
  readonly volumes: readonly Omit<Volume, 'node'>[];
  readonly snapshots: readonly Omit<Snapshot, 'node'>[];
  readonly trash: readonly Omit<Trashed, 'node'>[];
  readonly moves: readonly Omit<Move, 'node'>[];
}

const gib = 1024 ** 3;
const namespaces = ['shop', 'billing', 'search', 'analytics', 'platform', 'media'] as const;
const things = ['postgres', 'kafka', 'redis', 'elastic', 'minio', 'clickhouse', 'etcd', 'prometheus'] as const;

function bytes(number: number): `${bigint}` {
  return `${BigInt(Math.round(number))}`;
}

/** Always the same ones: pictures are compared by people. */
export function crowdOf(count: number, volumesEach: number): CrowdNode[] {
  return Array.from({ length: count }, (_, at) => nodeAt(at, volumesEach));
}

function nodeAt(at: number, volumesEach: number): CrowdNode {
  const name = `worker-${String(at + 1).padStart(3, '0')}`;
  const pool = 'fast';
  const now = Date.now();
  const time = (hours: number) => new Date(now - hours * 3_600_000).toISOString().replace(/\.\d+Z$/, 'Z');
  const diskBytes = (at % 3 === 0 ? 1788 : 3576) * gib;
  const snapshots: Omit<Snapshot, 'node'>[] = [];
  const volumes = Array.from({ length: volumesEach }, (_, index): Omit<Volume, 'node'> => {
    const number = at * volumesEach + index;
    const pv = `pvc-${String(number).padStart(8, '0')}-4f2a-4c55`;
    const size = [8, 20, 50, 100, 200][number % 5] ?? 8;
    const id = volumeIdFor(name, pool, pv);
    const claim = {
      namespace: namespaces[number % namespaces.length] ?? 'shop',
      name: `data-${things[(number * 7) % things.length]}-${index}`,
    };
    const content = number % 9 === 4 ? ({ type: 'block' } as const) : ({ type: 'mount', fsType: 'xfs' } as const);
    const taken = Array.from({ length: number % 4 === 1 ? 2 : 0 }, (_unused, cut) => ({
      id: snapshotIdFor(name, `snapshot-${number}-${cut}`),
      name: `snapshot-${String(number).padStart(6, '0')}-${cut}`,
      sourceId: id,
      sizeBytes: bytes(size * gib),
      content,
      blockSizeBytes: 4096,
      parameters: {},
      createdAt: time(3 + cut * 24),
    }));
    snapshots.push(...taken.map((snapshot) => ({ ...snapshot, pool })));
    const isUsed = number % 6 !== 5;
    return {
      ...{ id, name: pv, claim, pool, sizeBytes: bytes(size * gib) },
      usedBytes: bytes(size * gib * (((number * 37) % 90) / 100 + 0.04)),
      ...{ content, accessModes: ['SINGLE_NODE_WRITER'], provisioning: 'thin', blockSizeBytes: 4096 },
      parameters: { 'csi.storage.k8s.io/pvc/name': claim.name, 'csi.storage.k8s.io/pvc/namespace': claim.namespace },
      createdAt: time(5 + number * 3),
      undeleteSeconds: 86_400,
      state: isUsed ? 'published' : 'detached',
      devices: isUsed ? [{ path: `/dev/loop${index}`, readonly: false }] : [],
      stagedAt: [],
      publishedAt: isUsed ? [{ path: `/var/lib/kubelet/pods/${pv}/volumes/mount`, readonly: false }] : [],
      snapshots: taken,
    };
  });
  const trash = Array.from({ length: at % 4 === 2 ? 2 : 0 }, (_, index): Omit<Trashed, 'node'> => {
    const pv = `pvc-${at}-deleted-${index}`;
    return {
      ...{ id: volumeIdFor(name, pool, pv), name: pv, pool },
      claim: { namespace: 'shop', name: `orders-archive-${at}-${index}` },
      ...{ sizeBytes: bytes(100 * gib), usedBytes: bytes((30 + 11 * index) * gib) },
      ...{ deletedAt: time(2 + index), purgeAt: time(-22 + index) },
    };
  });
  const used = diskBytes * (at === 4 ? 0.93 : ((at * 29) % 65) / 100 + 0.08);
  const inTrash = trash.reduce((sum, { usedBytes }) => sum + Number(usedBytes), 0);
  const reserve = diskBytes * 0.03;
  const free = diskBytes - used - 12 * gib;
  const promised = Math.min(free - reserve, used * 0.4);
  const isSick = at === 6;
  return {
    ...{ name, volumes, snapshots, trash, moves: movesOf(at, volumes, time) },
    pools: [
      {
        ...{ name: pool, kind: 'image', default: true, labels: { tier: 'nvme' } },
        state: isSick ? 'quarantined' : 'open',
        ...(isSick && {
          advice: 'reads of its disk fail (EIO): replace the disk, or see docs/operations.md, "Sick disks".',
        }),
        ...{ location: { type: 'device', path: '/dev/nvme1n1' }, drivers: [{ pid: 0, command: 'holdfast' }] },
        ...(!isSick && {
          volumes: volumes.length,
          traits: { snapshots: 'reflink', block: true },
          capacity: {
            totalBytes: bytes(diskBytes - reserve),
            provisionedBytes: bytes(used + promised),
            usedBytes: bytes(used),
            availableBytes: bytes(free - promised - reserve + inTrash),
            thickAvailableBytes: bytes(free - promised - reserve),
          },
          disk: {
            diskBytes: bytes(diskBytes),
            freeBytes: bytes(free),
            claimableBytes: bytes(promised),
            snapshotBytes: bytes(used * 0.12),
          },
        }),
      },
    ],
  };
}

/** One move of each sort, on every fourth node. */
function movesOf(
  at: number,
  volumes: readonly { readonly id: string }[],
  time: (hours: number) => string,
): Omit<Move, 'node'>[] {
  const id = volumes[at % Math.max(1, volumes.length)]?.id;
  if (at % 4 !== 1 || id === undefined) return [];
  const between = { id, from: 'fast', to: 'large', startedAt: time(0.2 + at / 10) };
  const fromOther = { ...between, to: 'fast', fromNode: `worker-${String(at).padStart(3, '0')}` };
  const round = { totalBytes: bytes(90 * gib), copiedBytes: bytes(61 * gib), bytesPerSecond: bytes(0.21 * gib) };
  switch ((at >> 2) % 4) {
    case 0:
      return [{ ...fromOther, ...round, state: 'running', phase: 'copying', round: 1, doneBytes: bytes(61 * gib) }];
    case 1:
      return [{ ...between, ...round, state: 'running', phase: 'waiting', round: 4, doneBytes: bytes(90 * gib) }];
    case 2:
      return [{ ...between, state: 'done', endedAt: time(0.1) }];
    default:
      return [{ ...between, state: 'failed', endedAt: time(0.1), reason: 'pool large is full: it lacks 12Gi' }];
  }
}
