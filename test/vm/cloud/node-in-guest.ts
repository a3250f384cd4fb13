/**
 * Runs in the virtual machine: the node service for one call, with what lies in a directory from the call before.
 * node node-in-guest.mjs KIND up|grow|down|refused HANDLE CONTEXT PUBLISH-CONTEXT SECRETS BYTES
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encryptable } from '../../../src/pool/layers/luks/named/kind.ts';
import { cloudNamed } from '../../cloud/clouds.ts';
import { CallError } from '../../support/client.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { mountCapability } from '../../support/node-volume.ts';

const [, , kind = '', work = '', handle = '', context = '{}', published = '{}', given = '{}'] = process.argv;
const path = '/run/cloud';
mkdirSync(path, { recursive: true });
rmSync(join(path, 'csi.sock'), { force: true });
const scratch = { path, join: (...names: string[]) => join(path, ...names), [Symbol.dispose]: () => undefined };
const harness = await ContextHarness.open([encryptable(cloudNamed(kind).nodeKind())], scratch);
// The first volume of each harness has the same paths.
const at = existsSync(join(path, 'order')) ? readFileSync(join(path, 'order'), 'utf8').split('\n') : [];
if (!at.includes(handle)) at.push(handle);
writeFileSync(join(path, 'order'), at.join('\n'));
const volumes = at.map((each) => harness.volume(each, mountCapability('SINGLE_NODE_WRITER', [], 'ext4')));
const volume = volumes[at.indexOf(handle)] ?? assert.fail();
const volume_context = JSON.parse(context);
const publish_context = JSON.parse(published);
const secrets = JSON.parse(given);
const file = join(volume.target, 'file');
if (work === 'up') {
  await volume.stage({ volume_context, publish_context, secrets });
  await volume.publish({ volume_context });
  if (!existsSync(file)) writeFileSync(file, handle);
  execFileSync('sync', ['-f', volume.target]);
  const device = execFileSync('findmnt', ['-no', 'SOURCE', volume.target], { encoding: 'utf8' }).trim();
  console.log(JSON.stringify({ device, content: readFileSync(file, 'utf8') }));
}
if (work === 'grow') {
  await volume.expand(BigInt(process.argv[8] ?? ''));
  const [{ total } = { total: 0n }] = (await volume.stats()).usage;
  console.log(`${total}`);
}
if (work === 'down') await volume.down();
if (work === 'refused') {
  await assert.rejects(volume.stage({ volume_context, publish_context, secrets }), (error) => {
    assert.ok(error instanceof CallError);
    console.log(`${error.code} ${error.message}`);
    return true;
  });
}
await harness.stop();
