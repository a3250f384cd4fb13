import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { withoutOthersLoops } from '../support/child.ts';

test('clients of GlusterFS that leave, are slow or hang: no data is lost, and nothing waits for ever', () => {
  const program = join(import.meta.dirname, 'gluster-client-in-namespace.ts');
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  // Process 1 is that of the host, and the driver is in a container with hostPID. Whatever hangs ends with the namespace.
  const inContainer = `${withoutOthersLoops}\nmount --make-rshared / && unshare --mount --propagation unchanged "$@"; exit $?`;
  const words = ['--pid', '--fork', '--mount-proc', '--kill-child', 'sh', '-c', inContainer, 'sh'];
  const { status, stderr, stdout } = spawnSync('unshare', [...words, process.execPath, program], {
    ...{ env, encoding: 'utf8', timeout: 300_000 },
  });
  assert.equal(status, 0, `${stdout}${stderr}`);
});
