import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { methodsOf } from '../../src/csi/contract.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { TestVolume } from '../crash/test-volume.ts';
import { CallError } from '../support/client.ts';
import { holdfast } from '../support/command.ts';
import { environmentFor } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';
import { type ExecTrace, traceExecs } from './exec-trace.ts';
import { Fixture, undoAll } from './fixture.ts';
import { HostileNode } from './hostile-node.ts';
import { marked } from './marked.ts';
import { RawClient } from './raw-client.ts';
import { requestsFor } from './requests.ts';
import { howToRepeat, withoutShrinking } from './runs.ts';

/*
 * X01 X02 X03 E01: a marker in every secret, in mount flags, and in what a pod's attributes must not have, at the most
 * talkative log level, in calls that succeed and that fail. It is looked for wherever the driver leaves anything.
 */

const marker = `MARK${randomBytes(8).toString('hex')}`;
/** A flag that ext4 takes can only have a number in it. */
const numericMarker = 1_000_000_000 + Math.floor(Math.random() * 1_000_000_000);

const flagLists: readonly (readonly string[])[] = [
  ['noatime'],
  [`resuid=${numericMarker}`],
  [marker],
  [`commit=${marker}`, 'noatime'],
  [`errors=${marker}`],
  [`subvol=/${marker}`],
  [`x-mount.mkdir=${marker}`],
  [`journal_path=/${marker}`],
  [`noatime,context="${marker}"`],
];

let machine: Scratch;
let trace: ExecTrace;
let command: DriverCommand;
let httpPort: number;
before(async () => {
  machine = new Scratch('hostile-bin');
  trace = traceExecs(machine);
  httpPort = await freePort();
  const plain = await buildDriver();
  const more = { PATH: trace.searchPath, HOLDFAST_LOG_LEVEL: 'trace', HOLDFAST_HTTP_ADDRESS: `127.0.0.1:${httpPort}` };
  command = { ...plain, environment: { ...plain.environment, ...more } };
});
after(() => {
  command[Symbol.dispose]();
  machine[Symbol.dispose]();
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Everything that the driver has written or says, by where it was found. */
async function everythingSaid({ node }: HostileNode): Promise<Map<string, string>> {
  const said = new Map<string, string>([
    ['the log', readFileSync(`${node.socketPath}.log`, 'utf8')],
    ['argv and environment of programs', trace.read()],
    ['/metrics', await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text()],
  ]);
  for (const path of filesBelow(node.dataDirectory)) said.set(path, readFileSync(path, 'latin1'));
  const environment = environmentFor(node.scratch, { environment: command.environment });
  environment['HOLDFAST_CONFIG'] = node.scratch.join('holdfast.yaml');
  for (const args of [
    ['volumes', '--json'],
    ['volumes'],
    ['snapshots', '--json'],
    ['pools', '--json'],
    ['trash', '--json'],
  ]) {
    const { stderr, stdout } = await holdfast(args, environment, { command: command.plain });
    said.set(`holdfast ${args.join(' ')}`, `${stdout}${stderr}`);
  }
  return said;
}

/** What is larger is the inside of a volume. */
const largestFileBytes = 1 << 20;

function filesBelow(path: string): string[] {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    const inner = join(path, entry.name);
    if (entry.isDirectory()) return filesBelow(inner);
    return entry.isFile() && lstatSync(inner).size <= largestFileBytes ? [inner] : [];
  });
}

async function assertUnmarked(hostile: HostileNode): Promise<void> {
  for (const [where, text] of await everythingSaid(hostile)) {
    for (const mark of [marker, `${numericMarker}`]) {
      const at = text.indexOf(mark);
      assert.ok(at < 0, `${where}: …${text.slice(Math.max(0, at - 200), at + 60)}`);
    }
  }
}

const mayHoldSecrets = ['secrets', 'volume_capability', 'volume_capabilities'];

describe('secrets, mount flags and tokens', () => {
  test('of every RPC that takes any, generated', async (t) => {
    t.diagnostic(howToRepeat);
    await using hostile = await HostileNode.open(command, { keepsTrash: true });
    const fixture = new Fixture(hostile);
    using client = new RawClient(hostile.node.socketPath);
    const methods = ['Controller', 'GroupController', 'SnapshotMetadata', 'Node']
      .flatMap((service) => methodsOf(`csi.v1.${service}`))
      .filter(({ requestType }) => requestType.fields.some(({ name }) => mayHoldSecrets.includes(name)));
    assert.equal(methods.length, 20, methods.map(({ name }) => name).join(' '));
    let count = 0;
    for (const method of methods) {
      await fixture.ensure();
      const requests = fc.tuple(requestsFor(method, fixture.lexicon), fc.constantFrom(...flagLists));
      const property = fc.asyncProperty(requests, async ([request, flags]) => {
        const { message } = await client.call(marked(request, marker, flags));
        assert.ok(!message.includes(marker) && !message.includes(`${numericMarker}`), message);
        count++;
      });
      await fc.assert(property, withoutShrinking(20));
    }
    await assertUnmarked(hostile);
    t.diagnostic(`${count} requests of ${methods.length} RPCs`);
    await undoAll(hostile.node);
  });

  test('of a whole life, with flags that hold, and of everything that can go wrong with flags', async () => {
    await using hostile = await HostileNode.open(command, { keepsTrash: true });
    const { node } = hostile;
    const volume = new TestVolume(node, 'life', { type: 'mount', fsType: 'ext4' });
    const secrets = { password: marker };
    const { id: volume_id, stagingPath: staging_target_path, targetPath: target_path } = volume;
    const { controller, node: service } = node.client;
    const capability = (mount_flags: readonly string[]) => ({
      mount: { fs_type: 'ext4', mount_flags: [...mount_flags] },
      access_mode: { mode: 'SINGLE_NODE_WRITER' } as const,
    });
    const good = capability([`resuid=${numericMarker}`]);
    const capacity_range = { required_bytes: 32n << 20n };
    await controller.CreateVolume({ name: 'life', volume_capabilities: [good], capacity_range, secrets });
    for (const flags of flagLists.slice(2)) {
      const stage = service.NodeStageVolume({
        volume_id,
        staging_target_path,
        volume_capability: capability(flags),
        secrets,
      });
      await assertRefused(stage);
    }
    await service.NodeStageVolume({ volume_id, staging_target_path, volume_capability: good, secrets });
    assert.match(readFileSync('/proc/self/mountinfo', 'utf8'), new RegExp(`resuid=${numericMarker}`));
    await service.NodePublishVolume({ volume_id, staging_target_path, target_path, volume_capability: good, secrets });
    await assertRefused(
      service.NodePublishVolume({
        volume_id,
        staging_target_path,
        target_path,
        volume_capability: capability([marker]),
        secrets,
      }),
      'ALREADY_EXISTS',
    );
    await controller.CreateSnapshot({ name: 'cut', source_volume_id: volume_id, secrets });
    await assertUnmarked(hostile);
    await volume.unpublish();
    await volume.unstage();
    await controller.DeleteVolume({ volume_id, secrets });
    await assertUnmarked(hostile);
    // The net has caught something at all.
    assert.match(trace.read(), /mkfs\.ext4 .*export /s);
    assert.match(readFileSync(`${node.socketPath}.log`, 'utf8'), /"secrets":"\[redacted\]"/);
  });

  test("of an inline volume: the pod's tokens, and passwords in a repository's URL", async () => {
    await using hostile = await HostileNode.open(command, { keepsTrash: true });
    const { node } = hostile;
    const repository = node.scratch.join('repository');
    mkdirSync(repository);
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x', ...args], { cwd: repository });
    git('init', '--quiet');
    writeFileSync(join(repository, 'file'), '');
    git('add', 'file');
    git('commit', '--quiet', '--message=x');
    execFileSync('chmod', ['755', node.scratch.path]);
    const target_path = join(node.kubeletDirectory, 'pods', 'inline', 'volume');
    mkdirSync(dirname(target_path));
    const volume_id = 'csi-inline';
    const publish = (more: Readonly<Record<string, string>>, mount_flags: string[] = []) =>
      node.client.node.NodePublishVolume({
        volume_id,
        target_path,
        volume_capability: { mount: { mount_flags }, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
        volume_context: {
          'csi.storage.k8s.io/ephemeral': 'true',
          'csi.storage.k8s.io/serviceAccount.tokens': JSON.stringify({ audience: { token: marker } }),
          size: '32Mi',
          ...more,
        },
        secrets: { password: marker },
      });
    for (const gitRepository of [
      `https://user:${marker}@localhost/x`,
      `https://${marker}@localhost/x`,
      `https://localhost/x?token=${marker}`,
      `https://localhost/x#${marker}`,
      `ssh://git:${marker}@localhost/x`,
    ]) {
      await assertRefused(publish({ gitRepository }));
    }
    await assertRefused(publish({}, [marker]));
    await publish({ gitRepository: repository }, [`resuid=${numericMarker}`]);
    await assertUnmarked(hostile);
    await node.client.node.NodeUnpublishVolume({ volume_id, target_path });
    await assertUnmarked(hostile);
    assert.match(trace.read(), /git .*fetch/);
  });
});

async function assertRefused(call: Promise<unknown>, code = 'INVALID_ARGUMENT'): Promise<void> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof CallError, String(error));
  assert.equal(error.code, code, error.message);
  assert.ok(!error.message.includes(marker), error.message);
}
