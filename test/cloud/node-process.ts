/**
 * One life of a cloud's volume on a node, in a process that may die in it.
 * node node-process.ts KIND DIRECTORY LINKS up|down CAPABILITY-FS HANDLE CONTEXT PUBLISH-CONTEXT [CRASH-POINT]
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { LinkFinder } from '../../src/pool/cloud-disk/attached/finder.ts';
import { armCrashPoint, type CrashPoint } from '../../src/volume/step.ts';
import { ContextHarness } from '../support/context-harness.ts';
import { mountCapability } from '../support/node-volume.ts';
import { cloudNamed } from './clouds.ts';

const [
  ,
  ,
  kind = '',
  path = '',
  links = '',
  work = '',
  fsType = '',
  handle = '',
  context = '{}',
  published = '{}',
  point,
] = process.argv;
const scratch = { path, join: (...names: string[]) => join(path, ...names), [Symbol.dispose]: () => undefined };
rmSync(join(path, 'csi.sock'), { force: true });
await using harness = await ContextHarness.open([cloudNamed(kind).nodeKind(new LinkFinder(links))], scratch);
const volume = harness.volume(handle, mountCapability('SINGLE_NODE_WRITER', [], fsType));
if (point !== undefined) armCrashPoint(JSON.parse(point) as CrashPoint);
const volume_context = JSON.parse(context);
await volume.stage({ volume_context, publish_context: JSON.parse(published) });
await volume.publish({ volume_context });
if (work === 'down') {
  await volume.down();
  console.log(JSON.stringify({ mounts: harness.mounts(), notes: harness.notes() }));
}
