/**
 * The home of a pool of a cloud's volumes, with the pace of a fake, behind a socket.
 * node home-process.ts KIND DIRECTORY URL [CRASH-POINT]
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import pino from 'pino';
import { controllerService } from '../../src/controller/service.ts';
import { addServices } from '../../src/csi/call.ts';
import { listen, newServer } from '../../src/csi/listener.ts';
import { nodeKindsWith, ownParametersOf } from '../../src/pool/kinds.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { armCrashPoint, type CrashPoint } from '../../src/volume/step.ts';
import { cloudNamed, openCloudPool } from './clouds.ts';

const [, , kind = '', path = '', url = '', point] = process.argv;
const cloud = cloudNamed(kind);
const scratch = { join: (...names: string[]) => join(path, ...names) };
const pace = { pollMs: 20, waitMs: 2_000, settleMs: 200, bornMs: 400, stuckMs: 1_000 };
const pools = new Pools(new Map([['test', () => openCloudPool(cloud, scratch, url, { pace })]]), 'test');
const controller = controllerService({
  ...{ nodeId: 'cluster', topology: undefined, pools, objects: new ObjectQueue(), attach: 'required' },
  ...{ maxVolumesPerNode: 0, nodeKinds: nodeKindsWith(new Map()), expansion: 'controller', hasNoClones: true },
  ownParameters: ownParametersOf([cloud]),
});
// The cloud may refuse it: then the next home opens it.
const failures = await pools.open();
if (failures.length > 0) process.exit(3);
if (point !== undefined) armCrashPoint(JSON.parse(point) as CrashPoint);
const server = newServer();
addServices(server, { identity: {}, controller }, { log: pino({ level: 'silent' }) });
rmSync(join(path, 'home.sock'), { force: true });
await listen(server, join(path, 'home.sock'));
console.log('ready');
