import { connect } from 'node:net';
import type { Config } from '../../config/config.ts';
import { hasNode } from '../../config/side.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { explain } from '../../kernel/call/explain.ts';
import { checkNode, checkNodeKinds, checkServersInUse, clusterDriverOf } from '../../pool/kinds.ts';
import { type Finding, fail, isUsable, ok, warn } from '../../pool/sight.ts';
import { volumeIdFor } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { formatBytes } from '../../volume/size.ts';
import { describeId, type SeenPool } from '../look/inventory.ts';
import { lookAtPools } from '../look/look.ts';
import { checkNested } from './nested.ts';

/** Checks that this node has everything that pools of the configured kinds need. */
export async function checkKinds(
  queue: DiskQueue,
  { dataDirectory, pools, programs, side }: Config,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const kind of new Set(pools.map((pool) => pool.kind))) findings.push(...(await checkNode(kind, queue)));
  if (hasNode(side)) {
    findings.push(...(await checkNodeKinds(queue, programs)));
    findings.push(...(await checkServersInUse(dataDirectory, programs, queue)));
  }
  findings.push(await checkNested(queue));
  return findings;
}

/** Each pool, and the driver that should run them. */
export async function checkPools(config: Config): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const pool of await lookAtPools(config, 'capacity')) findings.push(...findingsOf(pool, config.nodeId));
  if (config.socketPath !== undefined) findings.push(await checkSocket(config.socketPath));
  return findings;
}

function findingsOf({ config, location, contents }: SeenPool, nodeId: string): Finding[] {
  const check = `pool ${config.name}`;
  const where = `${location.type} ${location.path}`;
  if (!isUsable(location.state)) return [fail(check, where, location.advice ?? '')];
  if (contents === undefined) return [warn(check, where, location.advice ?? '')];
  const { capacity, damaged, records } = contents;
  const holders = location.holders.map(({ pid, command }) => `run by process ${pid} (${command})`);
  const facts = [
    where,
    records.length === 1 ? '1 volume' : `${records.length} volumes`,
    `${formatBytes(capacity?.availableBytes ?? 0n)} available`,
    ...holders,
  ];
  return [
    ok(check, facts.join(', ')),
    ...(clusterDriverOf(config.kind) === undefined ? findStrangers(records, config.name, nodeId) : []),
    ...damaged.map(({ id, reason }) =>
      fail(describeId(id), reason, 'Restore its record from a backup, or move it away.'),
    ),
    ...contents.findings.map((finding) => ({ ...finding, check: `${check} ${finding.check}` })),
  ];
}

/**
 * An id is a digest of the names of its node and pool (volume/id.ts), so it shows that a disk has come from another node,
 * or that the node has another name now.
 */
function findStrangers(records: readonly VolumeRecord[], poolName: string, nodeId: string): Finding[] {
  const others = records.filter(
    ({ ephemeral, id, name }) => ephemeral === undefined && id !== volumeIdFor(nodeId, poolName, name),
  );
  const [first] = others;
  if (first === undefined) return [];
  return [
    warn(
      `pool ${poolName} names`,
      `${others.length} of ${records.length} volumes were made on a node that is not called ${nodeId}, or in a pool that is not called ${poolName}: ${describeId(first.id)}${others.length === 1 ? '' : ' and others'}`,
      'If their pods stay Pending (node affinity), their PersistentVolumes require the old name: give the node that name (HOLDFAST_NODE_ID), or make new PersistentVolumes with holdfast export. Otherwise nothing is wrong.',
    ),
  ];
}

function checkSocket(path: string): Promise<Finding> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(ok('driver', `answers at ${path}`));
    });
    socket.once('error', (error) => {
      const isGone = isErrno(error, 'ENOENT', 'ECONNREFUSED');
      const detail = isGone ? `no driver answers at ${path}` : explain(error);
      resolve(warn('driver', detail, 'Start it: holdfast serve'));
    });
  });
}
