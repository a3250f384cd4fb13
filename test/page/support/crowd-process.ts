import { readFileSync } from 'node:fs';
import { pino } from 'pino';
import { z } from 'zod';
import { Dialer } from '../../../src/fleet/node/dialer.ts';
import { viewStreams } from '../../../src/fleet/node/look.ts';
import { MemoryNode } from '../../fleet/support/memory-fleet.ts';
import { crowdOf } from './crowd.ts';

/**
 * Many nodes in one process, each with the link of a driver over TLS, a token, and lists to show (crowd.ts).
 * `node crowd-process.ts PLAN`.
 */
const plan = z.object({
  tokens: z.array(z.string()),
  port: z.number(),
  authorityPath: z.string(),
  volumesEach: z.number(),
});
export type CrowdPlan = z.infer<typeof plan>;

const { authorityPath, port, tokens, volumesEach } = plan.parse(
  JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')),
);
const log = pino({ level: 'silent' });
const dialers = crowdOf(tokens.length, volumesEach).map((node, index) => {
  const memory = new MemoryNode(node.name);
  for (const { id, name } of node.volumes) memory.volumes.set(id, name);
  const { calls, pools } = memory.served;
  const statuses = () =>
    node.pools.map(({ advice, name, state }) => ({
      name,
      state: state === 'open' ? ('open' as const) : ('quarantined' as const),
      reason: advice,
    }));
  const json = (items: readonly object[]) => items.map((item) => JSON.stringify(item));
  const look = viewStreams(
    async ({ list, volume }) => {
      if (list === 'who') {
        const holder = { kind: 'process', pid: 4711, command: 'postgres', path: '/var/lib/kubelet/pods/data/base/1' };
        const held = { pool: 'fast', devices: ['/dev/loop0'], mountedFrom: [], holders: [holder], isComplete: true };
        return {
          items: node.volumes.some(({ id }) => id === volume) ? json([{ id: volume, ...held }]) : [],
          problems: [],
        };
      }
      if (list === 'disks') return { items: json(disksOf(index)), problems: [] };
      const all = [
        ...node.pools.map((item) => ({ pools: item })),
        ...node.volumes.map((item) => ({ volumes: item })),
        ...node.snapshots.map((item) => ({ snapshots: item })),
        ...node.trash.map((item) => ({ trash: item })),
        ...node.moves.map((item) => ({ moves: item })),
      ];
      return list === 'all' ? { items: json(all), problems: [] } : undefined;
    },
    { log },
  );
  return new Dialer({
    ...{ authorityPath, tokenPath: tokens[index] ?? '', nodeId: node.name },
    ...{ controllers: [{ host: '127.0.0.1', port }], driverName: 'holdfast.csi.dev', driverVersion: '0.3.0' },
    link: { calls: { ...calls, streams: new Map([...calls.streams, ...look]) }, pools: { ...pools, statuses }, log },
  });
});
await Promise.all(dialers.map((dialer) => dialer.run()));

function disksOf(index: number): object[] {
  const disk = (name: string, gib: number, free: boolean, reasons: readonly string[]) => ({
    ...{ name, path: `/dev/${name}`, links: [`/dev/disk/by-id/nvme-SAMSUNG_PM9A3_7QX${index}${name}`] },
    ...{ sizeBytes: `${BigInt(gib) << 30n}`, bus: 'nvme', rotational: false, removable: false, model: 'SAMSUNG PM9A3' },
    ...{ serial: `7QX${index}${name.toUpperCase()}`, free, reasons },
  });
  return [
    disk('nvme0n1', 447, false, ['it has a partition table (gpt)', 'mounted at /']),
    disk('nvme1n1', 3576, false, ['pool fast has it']),
    ...(index % 3 === 0 ? [disk('nvme2n1', 3576, true, [])] : []),
  ];
}
