import { connect } from 'node:net';
import type { Config } from '../../config/config.ts';
import { describeId, type PoolSight } from '../../pool/kinds/image/look.ts';
import { isUsable } from '../../pool/location/find.ts';
import { formatBytes } from '../../volume/size.ts';
import { explain } from '../explain.ts';
import { lookAtPools } from '../look.ts';
import { type Finding, fail, ok, warn } from './check.ts';

/** Each pool, and the driver that should run them. */
export async function checkPools(config: Config): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const pool of await lookAtPools(config, 'capacity')) findings.push(...findingsOf(pool));
  if (config.socketPath !== undefined) findings.push(await checkSocket(config.socketPath));
  return findings;
}

function findingsOf({ config, location, contents }: PoolSight): Finding[] {
  const check = `pool ${config.name}`;
  const where = `${location.type} ${location.path}`;
  if (!isUsable(location.state)) return [fail(check, where, location.advice ?? '')];
  if (contents === undefined) return [warn(check, where, location.advice ?? '')];
  const { capacity, damaged, records } = contents;
  const holders = location.holders.map(({ pid, command }) => `run by process ${pid} (${command})`);
  const facts = [
    where,
    `${records.length} volumes`,
    `${formatBytes(capacity?.availableBytes ?? 0n)} available`,
    ...holders,
  ];
  return [
    ok(check, facts.join(', ')),
    ...damaged.map(({ id, reason }) =>
      fail(describeId(id), reason, 'Restore its record from a backup, or move it away.'),
    ),
    reflinkFinding(`${check} reflink`, contents.canShareBlocks),
  ];
}

/** Snapshots and clones share blocks where the filesystem can; elsewhere they are copies. */
function reflinkFinding(check: string, canShareBlocks: boolean | undefined): Finding {
  if (canShareBlocks === true) return ok(check, 'files can share blocks');
  if (canShareBlocks === undefined) return ok(check, 'not known without writing: the driver tries it at its start');
  return warn(
    check,
    'files cannot share blocks here',
    'Snapshots and clones will have to be copies. XFS and btrfs can share.',
  );
}

function checkSocket(path: string): Promise<Finding> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(ok('driver', `answers at ${path}`));
    });
    socket.once('error', (error) => {
      resolve(warn('driver', explain(error), 'Start it: holdfast serve'));
    });
  });
}
