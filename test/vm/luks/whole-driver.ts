import assert from 'node:assert/strict';
import { eventually } from '../../support/eventually.ts';
import { openingQuotes, quotesOf } from '../../support/troubleshooting.ts';
import { checksumOf, contentOf } from '../machine/content.ts';
import type { StartedNode } from '../node/start-node.ts';
import { EncryptedClaim } from './encrypted-claim.ts';
import { assertNowhere, newFindableKey } from './key-hunt.ts';
import { damage, type EncryptedPlace, started } from './places.ts';
import { Refusals } from './refusals.ts';

const mebibyte = 1n << 20n;
const file = { seed: 3, sizeBytes: 300_000 };
const written = checksumOf(contentOf(file.seed, file.sizeBytes));

/** Volumes' whole lives with keys from Secrets, by gRPC, and everything that is said meanwhile. */
export async function liveEncrypted({ node, scratch }: StartedNode, place: EncryptedPlace): Promise<void> {
  const { vm } = node;
  const [first, second, wrong] = [newFindableKey(), newFindableKey(), newFindableKey()];
  const refusals = new Refusals();
  const texts: Record<string, string> = {};
  const isWhole = async (path: string) =>
    assert.deepEqual(await vm.task('checksums', [{ path, sizeBytes: file.sizeBytes }]), [written]);
  const mappers = () => vm.run(`cat /sys/block/dm-*/dm/name 2>/dev/null | grep ^holdfast- || true`);
  /** What an operator is told, without a key in it. */
  const told = async (words: string): Promise<string> => {
    const { code, stderr, stdout } = await node.command(words);
    assert.equal(code, 0, stderr);
    texts[words] = `${stdout}${stderr}`;
    return stdout;
  };
  const keyIn = (text: string): string => /"keyId": ?"(key-[0-9a-f]+)"/.exec(text)?.[1] ?? assert.fail(text);

  const claim = new EncryptedClaim(node, 'claim', 32n * mebibyte);
  await refusals.refuses('INVALID_ARGUMENT', claim.create({}));
  await refusals.refuses('INVALID_ARGUMENT', claim.create({ passphrase: first, key: second }));
  await claim.create({ key: first });
  await claim.create({ key: first });
  await refusals.refuses('INVALID_ARGUMENT', claim.stage({}));
  await refusals.refuses('FAILED_PRECONDITION', claim.stage({ key: wrong }));
  assert.equal(await mappers(), '');
  const raw = new EncryptedClaim(node, 'raw', 32n * mebibyte, 'block');
  await raw.create({ key: first });

  // In use: they are written, grow with what is in them, and stay while the driver is killed and started anew.
  for (const each of [claim, raw]) {
    await each.stage({ key: first });
    await each.publish();
  }
  const filePath = `${claim.targetPath}/file`;
  for (const path of [filePath, raw.targetPath]) await vm.task('write', { ...file, path });
  for (const each of [claim, raw]) await each.expand(64n * mebibyte, {});
  const shownMiB = Number(await vm.run(`df --output=size --block-size=1M ${claim.targetPath} | tail -n 1`));
  assert.ok(shownMiB > 48, `the mounted filesystem has ${shownMiB} MiB`);
  assert.equal(BigInt(await vm.run(`blockdev --getsize64 ${raw.targetPath}`)), 64n * mebibyte);
  await node.kill();
  await node.start();
  for (const path of [filePath, raw.targetPath]) await isWhole(path);
  assert.equal((await told('volumes')).match(/ published /g)?.length, 2);
  await claim.stage({ key: first });
  await claim.expand(96n * mebibyte, { key: first });
  let snapshotId = place.takesInUse ? await claim.snapshot('before') : '';
  await claim.unpublish();
  await claim.unstage();
  if (!place.takesInUse) snapshotId = await claim.snapshot('before');

  // Another key; what was taken before needs the one of before.
  await claim.stage({ key: second, previousKey: first });
  await claim.unstage();
  const refused = await refusals.refuses('FAILED_PRECONDITION', claim.stage({ key: first }));
  const [keyOfVolume, keyOfSnapshot] = [await told(`volumes ${claim.id} --json`), await told('snapshots --json')];
  assert.ok(refused.includes(keyIn(keyOfVolume)), refused);
  const restored = new EncryptedClaim(node, 'restored', 96n * mebibyte);
  const source = { snapshot: { snapshot_id: snapshotId } };
  const refusedCopy = await refusals.refuses('FAILED_PRECONDITION', restored.create({ key: second }, source));
  assert.ok(refusedCopy.includes(keyIn(keyOfSnapshot)), refusedCopy);
  assert.notEqual(keyIn(keyOfSnapshot), keyIn(keyOfVolume));
  await restored.create({ key: first }, source);

  // The machine goes down in order and comes back: nothing of them is active, and the same keys open them.
  texts['what cryptsetup was started with'] = await vm.run(`cat ${started}`);
  await node.kill();
  await vm.reboot();
  await node.mount();
  assert.equal(await mappers(), '');
  await node.start();
  await restored.stage({ key: first });
  await restored.publish();
  await isWhole(`${restored.targetPath}/file`);
  await restored.unpublish();
  await restored.unstage();
  await raw.stage({ key: first });
  await raw.publish();
  await isWhole(raw.targetPath);
  await raw.unpublish();
  await raw.unstage();
  await eventually(async () => assert.equal(await mappers(), ''));

  // What is not ours to take away, and what is broken, is told and left as it is.
  const name = `holdfast-${claim.id}`;
  const loop = (await vm.run('truncate --size=1M /data/other && losetup --find --show /data/other')).trim();
  await vm.run(`dmsetup create ${name} --table '0 2048 linear ${loop} 0'`);
  await refusals.refuses('FAILED_PRECONDITION', claim.stage({ key: second }));
  await vm.run(`dmsetup remove ${name} && losetup --detach ${loop} && dmsetup create ${name} --table '0 2048 error'`);
  await refusals.refuses('FAILED_PRECONDITION', claim.stage({ key: second }));
  await vm.run(`dmsetup remove ${name}`);
  await damage(place, node, claim.id);
  await refusals.refuses('DATA_LOSS', claim.stage({ key: second }));
  assert.deepEqual(
    openingQuotes.filter((quote) => !refusals.messages.some((message) => quotesOf(message).includes(quote))),
    [],
    'docs/troubleshooting.md has what nothing says',
  );

  await raw.keep();
  for (const each of [claim, restored, raw]) await each.delete();
  await node.client.controller.DeleteSnapshot({ snapshot_id: snapshotId }, { deadlineMs: 300_000 });
  assert.match(await told('trash purge --yes'), new RegExp(raw.id));
  await eventually(async () => assert.equal(await mappers(), ''));
  await node.kill();
  await vm.run('sync');
  assert.match(node.log(), /NodeStageVolume/);
  Object.assign(texts, { 'the log': node.log(), 'an error': refusals.messages.join('\n') });
  const disks = ['system', 'pool'].map((disk) => scratch.join(`${disk}.disk`));
  assertNowhere([first, second, wrong], texts, scratch, disks);
}
