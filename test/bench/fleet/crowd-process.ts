import { readFileSync } from 'node:fs';
import { pino } from 'pino';
import { z } from 'zod';
import { Dialer } from '../../../src/fleet/node/dialer.ts';
import { MemoryNode } from '../../fleet/support/memory-fleet.ts';

/**
 * Many nodes in one process: each has the links of a driver, over TLS with a token of its own, and volumes that are names
 * in memory. `node crowd-process.ts PLAN`.
 */
const crowdPlan = z.object({
  nodes: z.array(z.object({ name: z.string(), tokenPath: z.string() })),
  controllers: z.array(z.object({ host: z.string(), port: z.number() })),
  authorityPath: z.string(),
});
export type CrowdPlan = z.infer<typeof crowdPlan>;

const { authorityPath, controllers, nodes } = crowdPlan.parse(JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')));
const log = pino({ level: 'silent' });
const dialers = nodes.map(({ name, tokenPath }) => {
  const { calls, pools } = new MemoryNode(name).served;
  return new Dialer({
    controllers,
    authorityPath,
    tokenPath,
    nodeId: name,
    driverName: 'holdfast.csi.dev',
    driverVersion: '0',
    link: { calls, pools, log },
  });
});
await Promise.all(dialers.map((dialer) => dialer.run()));
