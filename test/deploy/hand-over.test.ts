import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusters, handOver, loadCommand, pushCommand } from '../../deploy/image/hand-over.ts';

test('an image is loaded as the guides say, and pushed under the version', () => {
  assert.deepEqual(loadCommand('kind', '/a/holdfast.tar'), ['kind', 'load', 'image-archive', '/a/holdfast.tar']);
  assert.deepEqual(loadCommand('k3s', '/a.tar'), ['k3s', 'ctr', 'images', 'import', '/a.tar']);
  assert.equal(loadCommand('k0s', '/a.tar'), undefined);
  assert.ok(clusters.every((cluster) => loadCommand(cluster, '/a.tar')?.at(-1) === '/a.tar'));
  const { command, name } = pushCommand('registry.example.org/storage/', '/a.tar', '1.2.3');
  assert.equal(name, 'registry.example.org/storage/holdfast:1.2.3');
  assert.deepEqual(command, ['skopeo', 'copy', 'oci-archive:/a.tar', `docker://${name}`]);
});

test('a program that is not there, or fails, is named', () => {
  assert.throws(() => handOver(['holdfast-no-such-program']), /there is no holdfast-no-such-program on this machine/);
  assert.throws(() => handOver(['false']), /false failed/);
});
