import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { delimiter } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fleetShapes } from '../../src/cli/fleet/shapes.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import type { StandaloneApiServer } from '../cluster/api-server.ts';
import { buildPrograms } from '../cluster/harness/programs.ts';
import type { ControllerProcess } from '../fleet/support/controller-process.ts';
import { get, streamed } from '../page/support/http.ts';
import { eventually } from '../support/eventually.ts';
import type { Scratch } from '../support/scratch.ts';
import { type Account, namespace } from './fleet-cluster.ts';

const plugins = fileURLToPath(new URL('../../deploy/kubectl', import.meta.url));
const page = readFileSync(fileURLToPath(new URL('../../docs/kubectl.md', import.meta.url)), 'utf8');

/** An address of this machine that the API server lets its proxy go to: it has none for loopback. */
export function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const address = all.find(({ family, internal }) => family === 'IPv4' && !internal)?.address;
  assert.ok(address, 'this machine has no address but loopback');
  return address;
}

export interface PluginScene {
  readonly server: StandaloneApiServer;
  readonly scratch: Scratch;
  readonly controller: ControllerProcess;
  readonly account: Account;
}

interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number | null;
}

/**
 * `kubectl holdfast …`, with the real kubectl, through the API server's proxy: a user with the Role of deploy/fleet, one
 * without, and an account that may not look. node-a and node-b are there with a volume each, and node-c is away.
 */
export async function seeByPlugin(scene: PluginScene): Promise<void> {
  const { controller, server } = scene;
  const { kubectl } = server;
  await serveView(scene);
  const alice = await userWith(scene, 'alice');
  const mallory = await userWith(scene, 'mallory');
  const bind = documented(
    'kubectl -n holdfast-system create rolebinding alice-looks --role=holdfast-viewer --user=alice',
  );
  // A user of this server is a ServiceAccount: its tokens are those that it can be given.
  await kubectl.run(bind.map((word) => word.replace('--user=alice', '--serviceaccount=default:alice')));

  for (const command of [
    'nodes',
    'pools',
    'volumes',
    'snapshots',
    'trash',
    'move status',
    'export --storage-class holdfast',
  ]) {
    const { status, stderr, stdout } = await alice(documented(`kubectl holdfast ${command}`));
    assert.equal(status, 1, stderr);
    if (command.startsWith('export')) assert.match(stdout, /^kind: PersistentVolume$/m);
    else assert.match(stdout, /^NODE +/, stderr);
    if (command !== 'nodes') assert.match(stderr, /^holdfast: node node-c: it is away since \d/m);
  }
  const { stdout } = await alice(documented('kubectl holdfast volumes --json'));
  const { missing, volumes } = fleetShapes.volumes.parse(JSON.parse(stdout));
  assert.deepEqual([...new Set(volumes.map(({ node }) => node))].sort(), ['node-a', 'node-b']);
  assert.deepEqual(
    missing.map(({ node, reason }) => `${node} ${reason}`),
    ['node-c away'],
  );
  const one = await alice([...documented('kubectl holdfast volumes shop/data').slice(0, -1), 'default/data']);
  assert.match(one.stdout, /^Claim +default\/data\n.*node-a$/m, one.stderr);
  // As everywhere in kubectl, -n is the namespace of what is asked for.
  const named = await alice(
    documented('kubectl holdfast volumes data -n shop').map((word) => word.replace('shop', 'default')),
  );
  assert.match(named.stdout, /^Claim +default\/data\n.*node-a$/m, named.stderr);
  const inNamespace = async (name: string) => {
    const { stdout } = await alice(['holdfast', 'volumes', '-n', name, '-o', 'json']);
    return fleetShapes.volumes.parse(JSON.parse(stdout)).volumes.map(({ claim }) => claim?.namespace);
  };
  assert.ok((await inNamespace('default')).length > 0);
  assert.deepEqual(new Set(await inNamespace('default')), new Set(['default']));
  assert.deepEqual(await inNamespace('shop'), []);
  const [first] = volumes;
  const who = await alice(['holdfast', 'who', first?.id ?? '']);
  assert.equal(who.stdout, `On node ${first?.node}:\nNothing holds ${first?.id}.\n`, who.stderr);
  assert.equal(who.status, 0);
  const alone = await alice(documented('kubectl holdfast pools --node node-a'));
  assert.equal(alone.status, 0, alone.stderr);
  assert.match(
    (await alice(['holdfast', 'volumes', 'shop/none'])).stderr,
    /^holdfast: there is no volume 'shop\/none' /,
  );
  for (const [args, words] of [
    [['purge'], /unknown command purge/],
    [['pool'], /unknown command pool: did you mean pools\?/],
    [['who'], /who needs a volume/],
    [['nodes', '-n', 'shop'], /nodes takes no namespace/],
    [['volumes', 'a', 'b'], /unexpected argument: b/],
  ] as const) {
    const wrong = await alice(['holdfast', ...args]);
    assert.equal(wrong.status, 2);
    assert.match(wrong.stderr, words);
  }
  const elsewhere = await alice(['holdfast', 'volumes', '--controller-namespace', 'default']);
  assert.equal(elsewhere.status, 1);
  assert.match(elsewhere.stderr, /you need the Role holdfast-viewer in the namespace default/);
  // Who may look everywhere is told what is missing there.
  const admin = await kubectl.run(['-n', 'default', 'create', 'token', 'holdfast-view']).catch(String);
  assert.match(admin, /failed to create token.* not found/);
  assert.match((await alice(['holdfast', 'version'])).stdout, /^\d+\.\d+\.\d+\n$/);

  await changeByPlugin(scene, alice);

  // Without the Role there is no token to be had.
  const refused = await mallory(['holdfast', 'volumes']);
  assert.equal(refused.status, 1);
  assert.equal(refused.stdout, '');
  assert.match(
    refused.stderr,
    /serviceaccounts "holdfast-view" is forbidden: User "system:serviceaccount:default:mallory"/,
  );
  assert.match(refused.stderr, /you need the Role holdfast-viewer in the namespace holdfast-system/);

  // Half of the Role: a token, and no way to the controller.
  await kubectl.run(['-n', namespace, 'create', 'role', 'half', '--verb=create', '--resource=serviceaccounts/token']);
  await kubectl.run([
    '-n',
    namespace,
    'create',
    'rolebinding',
    'half',
    '--role=half',
    '--serviceaccount=default:mallory',
  ]);
  const half = await mallory(['holdfast', 'volumes']);
  assert.equal(half.status, 1);
  assert.match(half.stderr, /not whole: services "https:holdfast-controller:view" is forbidden: User/);

  // The account itself may look at less, then at nothing.
  const clusterRole = ['clusterrole', 'holdfast-view', '--type=json', '-p'];
  const only = '[{"op": "replace", "path": "/rules/0/resources", "value": ["pools"]}]';
  await kubectl.run(['patch', ...clusterRole, only]);
  const user = `system:serviceaccount:${namespace}:holdfast-view`;
  await eventually(async () => {
    const less = await alice(['holdfast', 'volumes', '--json']);
    assert.equal(less.status, 1);
    const message = `${user} may not look at volumes: RBAC lets it no "get" of volumes.holdfast.csi.dev`;
    assert.deepEqual(JSON.parse(less.stderr), { code: 'FAILED_PRECONDITION', message });
  });
  // What the plugin started has the caller's credentials: it ends with the plugin.
  await eventually(() => assert.deepEqual(proxiesIn(scene.scratch), []));
  await kubectl.run(['apply', '-k', fileURLToPath(new URL('../../deploy/fleet', import.meta.url))]);
  assert.match(
    controller.output(),
    /"view":"\/v1\/pools","user":"system:serviceaccount:holdfast-system:holdfast-view"/,
  );
}

type User = Awaited<ReturnType<typeof userWith>>;

/** The page and the changes: through the real proxies of kubectl and the API server, with and without the Role. */
async function changeByPlugin(scene: PluginScene, looker: User): Promise<void> {
  const { controller, server } = scene;
  const refused = await looker(['holdfast', 'trash', 'restore', 'none']);
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /you need the Role holdfast-operator in the namespace holdfast-system/);
  const operator = await userWith(scene, 'olga');
  const role = ['--role=holdfast-operator', '--serviceaccount=default:olga'];
  await server.kubectl.run(['-n', namespace, 'create', 'rolebinding', 'olga-operates', ...role]);
  await eventually(async () => {
    const none = await operator(['holdfast', 'trash', 'restore', 'none', '--node', 'node-a']);
    assert.equal(none.status, 1);
    assert.match(none.stderr, /there is no volume 'none' in the trash of any node/);
  });
  const id = `vol-${'a'.repeat(26)}`;
  for (const word of [[], ['--even-so']]) {
    const restore = ['holdfast', 'trash', 'restore', id, '--node', 'node-b', '--node-is-lost', 'node-a'];
    const lost = await operator([...restore, ...word]);
    assert.match(lost.stderr, /Node node-a is not known to be lost: kubectl holdfast forget-node node-a comes first/);
  }
  const linked = await operator(['holdfast', 'forget-node', 'node-a']);
  assert.match(linked.stderr, /Node node-a has a link to the controller/);
  const listed = await operator(['holdfast', 'forget-node', 'node-c', '--dry-run', '--json']);
  assert.equal(JSON.parse(listed.stdout).done, 'nothing', listed.stderr);
  const cancelled = await operator(['holdfast', 'move', 'cancel', volumeIdFor('a', 'b', 'c'), '--even-so']);
  assert.match(cancelled.stderr, /does not move on the nodes that answered/);
  for (const [args, words] of [
    [['trash', 'purge'], /trash purge needs a volume/],
    [['move'], /move needs a claim/],
    [['move', 'cancel'], /move cancel needs a volume/],
    [['move', 'status', 'vol'], /move status takes no volume/],
    [['forget-node'], /forget-node needs a node/],
    [['trash', 'purge', 'x', '--pool-is-lost', 'y'], /only move finish and trash restore take --pool-is-lost/],
    [
      ['trash', 'purge', 'x', '--node-is-lost', 'node-c'],
      /only move cancel, move finish and trash restore take --node-is-lost/,
    ],
    [['trash', 'purge', 'x', '--even-so'], /trash takes no --even-so/],
    [['move', 'cancel', 'x', '--undo'], /move takes no --undo/],
    [['move', 'finish', 'x', '--node-is-lost', 'a', '--undo'], /move takes no --undo/],
    [['move', 'finish', 'x'], /move finish needs what is lost: --node-is-lost NODE, or --pool-is-lost POOL/],
    [['move', 'finish', 'x', '--node-is-lost', 'a', '--pool-is-lost', 'b'], /takes --node-is-lost or --pool-is-lost/],
    [['pools', '--dry-run'], /pools takes no --dry-run/],
    [['ui', 'x'], /ui takes neither a volume nor a node/],
  ] as const) {
    const wrong = await operator(['holdfast', ...args]);
    assert.deepEqual([wrong.status, words.test(wrong.stderr)], [2, true], wrong.stderr);
  }

  for (const [user, may] of [
    [looker, []],
    [operator, ['restore', 'purge', 'cancel', 'forget']],
  ] as const) {
    const page = user.start(['holdfast', 'ui']);
    try {
      await eventually(() =>
        assert.match(page.stdout, /^http:\/\/127\.0\.0\.1:\d+\/\S+\/ui\/#token=\S+\n$/, page.stderr),
      );
      const { hash, href, port } = new URL(page.stdout.trim());
      const token = hash.replace('#token=', '');
      const at = href.replace(/#.*/, '');
      const index = await get(at);
      assert.equal(index.status, 200);
      assert.match(String(index.headers['content-security-policy']), /^default-src 'none'/);
      assert.match(index.text, /<script type="module" src="page\.js">/);
      assert.match((await get(`${at}page.js`)).text, /holdfast/);
      const messages = await streamed(new URL('../v1/stream', at).href, token, (all) =>
        all.some((message) => message.kind === 'items' && message.list === 'volumes'),
      );
      assert.deepEqual(messages[0]?.kind === 'hello' && messages[0].may, may);
      // Others at this port get nothing: no other path, no other name, nothing without the token.
      assert.equal((await get(`http://127.0.0.1:${port}/api/v1/namespaces`)).status, 403);
      assert.equal((await get(at, { headers: { host: `evil.example:${port}` } })).status, 403);
      assert.equal((await get(new URL('../v1/volumes', at).href)).status, 401);
      const change = new URL('../v1/trash/restore?volume=none&node=node-a', at).href;
      const changed = await get(change, { method: 'POST', headers: { 'x-holdfast-token': token } });
      assert.equal(changed.status, may.length === 0 ? 403 : 404, changed.text);
      assert.ok(!controller.output().includes(token));
    } finally {
      await page.end();
    }
  }
}

/** The kubectl proxies with a socket in the scratch directory that still run. */
function proxiesIn(scratch: Scratch): string[] {
  const commands = readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      } catch {
        // It has ended meanwhile.
        return '';
      }
    });
  return commands.filter((command) => command.includes(`--unix-socket=${scratch.path}/`));
}

/** What a kubelet and the endpoints controller do: the proxy goes to addresses of pods alone. */
async function serveView({ controller, server: { kubectl } }: PluginScene): Promise<void> {
  const { port } = await controller.logged('listening for viewers of the fleet');
  const [name, ip] = ['holdfast-controller-1', ownAddress()];
  const containers = [{ name: 'holdfast', image: 'localhost/holdfast' }];
  await kubectl.apply([
    { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace }, spec: { nodeName: 'node-a', containers } },
    {
      apiVersion: 'v1',
      kind: 'Endpoints',
      metadata: { name: 'holdfast-controller', namespace },
      subsets: [
        {
          addresses: [{ ip, targetRef: { kind: 'Pod', name, namespace } }],
          ports: [{ name: 'view', port: Number(port) }],
        },
      ],
    },
  ]);
  const status = JSON.stringify({ status: { podIP: ip, podIPs: [{ ip }] } });
  await kubectl.run(['-n', namespace, 'patch', 'pod', name, '--subresource=status', '--type=merge', '-p', status]);
}

/** Runs kubectl, with our plugin in its PATH, as somebody with a kubeconfig of his own. */
async function userWith({ account, scratch, server: { kubectl } }: PluginScene, name: string) {
  await kubectl.run(['create', 'namespace', 'default']).catch(() => undefined);
  await kubectl.run(['-n', 'default', 'create', 'serviceaccount', name]);
  const token = (await kubectl.run(['-n', 'default', 'create', 'token', name])).trim();
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'cluster',
    contexts: [{ name: 'cluster', context: { cluster: 'cluster', user: name } }],
    clusters: [{ name: 'cluster', cluster: { server: account.url, 'certificate-authority': account.authority } }],
    users: [{ name, user: { token } }],
  };
  const kubeconfig = scratch.join(`${name}.kubeconfig`);
  writeFileSync(kubeconfig, JSON.stringify(config), { mode: 0o600 });
  const programs = await buildPrograms(['kubectl']);
  const path = [plugins, programs, process.env['PATH']].join(delimiter);
  const env = { PATH: path, KUBECONFIG: kubeconfig, HOME: scratch.path, TMPDIR: scratch.path };
  const run = (args: readonly string[]): Promise<Ran> =>
    new Promise((resolve, reject) => {
      const child = spawn('kubectl', args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
      let [stdout, stderr] = ['', ''];
      child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
      child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
      child.once('error', reject);
      child.once('close', (status) => resolve({ stdout, stderr, status }));
    });
  return Object.assign(run, { start: (args: readonly string[]) => new Typed(args, env) });
}

/** A command that goes on until it is interrupted, as by Ctrl-C: its whole process group is. */
class Typed {
  stdout = '';
  stderr = '';
  readonly #child;

  constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    this.#child = spawn('kubectl', args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    this.#child.stdout.setEncoding('utf8').on('data', (text) => (this.stdout += text));
    this.#child.stderr.setEncoding('utf8').on('data', (text) => (this.stderr += text));
  }

  async end(): Promise<void> {
    const { exitCode, pid, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null || pid === undefined) return;
    const ended = once(this.#child, 'close');
    process.kill(-pid, 'SIGINT');
    await ended;
  }
}

/** A command of docs/kubectl.md; what kubectl gets. */
function documented(command: string): string[] {
  assert.match(
    page,
    new RegExp(`^${command.replaceAll('.', '\\.')}( +#.*)?$`, 'm'),
    `docs/kubectl.md has no: ${command}`,
  );
  return command.split(' ').slice(1);
}
