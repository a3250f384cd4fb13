import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { type StandaloneApiServer, startApiServer } from '../cluster/api-server.ts';
import { buildPrograms } from '../cluster/harness/programs.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';

/*
 * kubectl holdfast move, with a real API server, which lets no node affinity be changed: the PersistentVolume and the claim
 * are made again. The controller is a program in the place of curl, which plays what a test writes.
 */

const plugin = fileURLToPath(new URL('../../deploy/kubectl/kubectl-holdfast', import.meta.url));
const access = fileURLToPath(new URL('../../deploy/fleet/access.yaml', import.meta.url));
const list = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), deletionTimestamp: z.string().optional() }),
      spec: z.object({
        claimRef: z.object({ name: z.string() }),
        csi: z.object({ volumeHandle: z.string() }),
        persistentVolumeReclaimPolicy: z.string(),
        nodeAffinity: z.object({
          required: z.object({
            nodeSelectorTerms: z.array(
              z.object({ matchExpressions: z.array(z.object({ values: z.array(z.string()) })) }),
            ),
          }),
        }),
      }),
    }),
  ),
});
const affinity = (node: string) => ({
  required: {
    nodeSelectorTerms: [
      {
        matchExpressions: [
          { key: 'topology.holdfast.dev/node', operator: 'In', values: [node] },
          { key: 'kubernetes.io/arch', operator: 'In', values: ['amd64', 'arm64'] },
        ],
      },
    ],
  },
});

/** Fails at the first try of what is named. */
const onceFailing = (directory: string, kubectl: string) => `#!/bin/sh
for what in 'get pods' 'delete pod db'; do
  case "$*" in
    *"$what"*)
      tried="${directory}/tried $what"
      [ -e "$tried" ] || { : >"$tried"; echo 'connection refused' >&2; exit 1; }
      ;;
  esac
done
exec ${kubectl} "$@"
`;

/** Deletes no claim before it may. */
const holding = (directory: string, kubectl: string) => `#!/bin/sh
case "$*" in
  *'delete --raw'* | *'delete pvc'*)
    : >"${directory}/held"
    until [ -e "${directory}/released" ]; do sleep 0.1; done
    ;;
esac
exec ${kubectl} "$@"
`;

/** Gives no PersistentVolume its policy back before it may. */
const keepingBack = (directory: string, kubectl: string) => `#!/bin/sh
case "$*" in
  *'"persistentVolumeReclaimPolicy":"Delete"'*)
    : >"${directory}/kept-back"
    until [ -e "${directory}/let-on" ]; do sleep 0.1; done
    ;;
esac
exec ${kubectl} "$@"
`;

const moveId = '6d3b6f2e-8a53-4a51-9d86-0c3f8f6f7f11';
const controller = (directory: string) => `#!/bin/sh
cat >/dev/null
cd ${directory}
printf '%s\n' "$*" >>asked
case "$*" in
  *moves/start*) printf '1${moveId}\\n1planned\\nx0\\n' ;;
  *output=progress*node=*v1/volumes*)
    case "$*" in *node=node-away*) printf '2holdfast: UNAVAILABLE: node node-away: it is away\nx1\n'; exit ;; esac
    printf '1vol-x\n1vol-left default/left\nx0\n' ;;
  *node=node-away*v1/snapshots*) printf '2holdfast: UNAVAILABLE: node node-away: it is away\nx1\n' ;;
  *output=progress*node=node-x*v1/snapshots*) printf '1snapshot snapshot-1 vol-x\n1snapshot snapshot-2 vol-left\nx0\n' ;;
  *v1/snapshots*) printf '1ID NAME of an older controller\nx0\n' ;;
  *output=progress*v1/volumes*) printf '1%s\\nx0\\n' "$(cat where)" ;;
  *v1/moves*)
    first=$(head -n 1 script)
    [ "$(wc -l <script)" -le 1 ] || { sed 1d script >rest; mv rest script; }
    printf '1%s\\n1a line for people\\nx0\\n' "$first"
    ;;
esac
`;

describe('kubectl holdfast move', () => {
  let server: StandaloneApiServer;
  let programs: string;
  const scratch = new Scratch('kubectl-move');
  before(async () => {
    server = await startApiServer();
    programs = await buildPrograms(['kubectl']);
    writeFileSync(scratch.join('curl'), controller(scratch.path));
    chmodSync(scratch.join('curl'), 0o755);
    await server.kubectl.run(['create', 'namespace', 'holdfast-system']);
    await server.kubectl.run(['apply', '-f', access]);
  });
  after(async () => {
    scratch[Symbol.dispose]();
    await server[Symbol.asyncDispose]();
  });

  /** The controller plays these states, and has the volume on that node. */
  function plays(node: string, ...states: string[]): void {
    writeFileSync(scratch.join('script'), states.map((state) => `${state}\n`).join(''));
    writeFileSync(scratch.join('where'), node);
    writeFileSync(scratch.join('asked'), '');
  }

  async function type(words: string[], timeoutSeconds = 90, kubectl = 'kubectl') {
    const child = spawn('timeout', [String(timeoutSeconds), plugin, 'move', ...words], {
      env: {
        PATH: `${scratch.path}:${programs}:${process.env['PATH']}`,
        KUBECONFIG: server.kubeconfig,
        KUBECTL: kubectl,
        HOME: scratch.path,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
    const [status] = await once(child, 'close');
    return { stdout, stderr, status };
  }

  /** The same at a terminal, where somebody answers once a line of this has come. */
  async function typeAtTerminal(words: string[], question: RegExp, answer: string) {
    const child = spawn('script', ['-qec', `${plugin} move ${words.join(' ')}`, '/dev/null'], {
      env: {
        PATH: `${scratch.path}:${programs}:${process.env['PATH']}`,
        KUBECONFIG: server.kubeconfig,
        HOME: scratch.path,
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (shown += text));
    const closed = once(child, 'close');
    await eventually(() => assert.match(shown, question), 60_000);
    child.stdin.write(answer);
    const [status] = await closed;
    return { shown, status };
  }

  /** @param node '': it waits for one */
  async function usedBy(
    pod: string,
    claim: string,
    controller?: 'Job' | 'StatefulSet',
    node = 'node-a',
  ): Promise<void> {
    const owner = { apiVersion: 'apps/v1', kind: controller, name: 'set', uid: moveId, controller: true };
    const ownerReferences = controller === undefined ? [] : [owner];
    await apply({
      ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: pod, namespace: 'default', ownerReferences } },
      spec: {
        ...{ nodeName: node, automountServiceAccountToken: false, containers: [{ name: 'db', image: 'db' }] },
        volumes: [{ name: 'data', persistentVolumeClaim: { claimName: claim } }],
      },
    });
  }

  async function apply(object: object): Promise<void> {
    writeFileSync(scratch.join('object.json'), JSON.stringify(object));
    await server.kubectl.run(['create', '-f', scratch.join('object.json')]);
  }

  async function created(claim: string, node = 'node-a'): Promise<void> {
    const objects = [
      {
        kind: 'PersistentVolume',
        metadata: { name: `pv-${claim}` },
        spec: {
          ...{ capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], storageClassName: 'holdfast' },
          persistentVolumeReclaimPolicy: 'Delete',
          csi: { driver: 'holdfast.csi.dev', volumeHandle: 'vol-x' },
          claimRef: { namespace: 'default', name: claim },
          nodeAffinity: affinity(node),
        },
      },
      {
        kind: 'PersistentVolumeClaim',
        metadata: { name: claim, namespace: 'default' },
        spec: {
          ...{ accessModes: ['ReadWriteOnce'], storageClassName: 'holdfast', volumeName: `pv-${claim}` },
          resources: { requests: { storage: '1Gi' } },
        },
      },
    ].map((object) => ({ apiVersion: 'v1', ...object }));
    for (const object of objects) await apply(object);
  }

  /** The part of the controllers that nothing runs here: a claim that no pod uses goes. */
  async function releases(claim: string): Promise<void> {
    await eventually(async () => {
      const claimed = await server.kubectl.run(['get', 'pvc', claim, '-o', 'jsonpath={.metadata.deletionTimestamp}']);
      assert.notEqual(claimed, '');
    });
    await server.kubectl.run(['patch', 'pvc', claim, '--type=merge', '-p', '{"metadata":{"finalizers":null}}']);
  }

  async function placesOf(claim: string) {
    const { items } = list.parse(JSON.parse(await server.kubectl.run(['get', 'pv', '-o', 'json'])));
    return items
      .filter(({ metadata, spec }) => spec.claimRef.name === claim && metadata.deletionTimestamp === undefined)
      .map(({ metadata, spec }) => ({
        name: metadata.name,
        policy: spec.persistentVolumeReclaimPolicy,
        node: spec.nodeAffinity.required.nodeSelectorTerms[0]?.matchExpressions[0]?.values[0],
        handle: spec.csi.volumeHandle,
      }));
  }

  test('makes the PersistentVolume and the claim again, for the other node, with the policy that it had', async () => {
    await created('whole');
    plays('node-b', 'running copying node-b', 'running waiting node-b', 'done - node-b');
    const [typed] = await Promise.all([type(['default/whole', '--to', 'node-b', '--when-idle']), releases('whole')]);
    assert.equal(typed.status, 0, typed.stderr);
    assert.match(typed.stdout, /default\/whole is on node-b\.\n$/);
    const [only, ...others] = await placesOf('whole');
    assert.deepEqual(others, []);
    assert.deepEqual([only?.node, only?.policy, only?.handle], ['node-b', 'Delete', 'vol-x']);
    assert.match(
      readFileSync(scratch.join('asked'), 'utf8'),
      new RegExp(`output=progress.*move=${moveId}.*v1/moves$`, 'm'),
    );
    const bound = await server.kubectl.run(['get', 'pvc', 'whole', '-o', 'jsonpath={.spec.volumeName}']);
    assert.equal(bound, only?.name);
  });

  test('that is cut short while there is no claim loses nothing, and goes on with --resume', async () => {
    await created('cut');
    plays('node-b', 'running waiting node-b', 'done - node-b');
    const cut = await type(['default/cut', '--to', 'node-b', '--when-idle'], 15);
    assert.equal(cut.status, 124, cut.stderr);
    assert.deepEqual(
      (await placesOf('cut')).map(({ policy }) => policy),
      ['Retain', 'Retain'],
    );
    await releases('cut');
    plays('node-b', 'done - node-b');
    const { status, stderr } = await type(['--resume', 'default/cut']);
    assert.equal(status, 0, stderr);
    assert.deepEqual(
      (await placesOf('cut')).map(({ node, policy }) => [node, policy]),
      [['node-b', 'Delete']],
    );
  });

  test('deletes no claim that another terminal has made meanwhile', async () => {
    await created('twice');
    plays('node-b', 'done - node-b');
    const slow = scratch.join('kubectl-slow');
    writeFileSync(slow, holding(scratch.path, `${programs}/kubectl`));
    chmodSync(slow, 0o755);
    const second = type(['--resume', 'default/twice'], 120, slow);
    await eventually(() => assert.ok(existsSync(scratch.join('held'))), 60_000);
    const [first] = await Promise.all([type(['--resume', 'default/twice']), releases('twice')]);
    assert.equal(first.status, 0, first.stderr);
    const uid = () => server.kubectl.run(['get', 'pvc', 'twice', '-o', 'jsonpath={.metadata.uid}']);
    const made = await uid();
    writeFileSync(scratch.join('released'), '');
    const { status, stderr } = await second;
    assert.equal(status, 0, stderr);
    assert.equal(await uid(), made);
    assert.equal(await server.kubectl.run(['get', 'pvc', 'twice', '-o', 'jsonpath={.metadata.deletionTimestamp}']), '');
    assert.deepEqual(
      (await placesOf('twice')).map(({ name, node, policy }) => [name, node, policy]),
      [['pv-twice-moved-1', 'node-b', 'Delete']],
    );
  });

  test('gives no PersistentVolume the policy Delete back whose claim another terminal has begun to move on', async () => {
    await created('back');
    plays('node-b', 'done - node-b');
    const slow = scratch.join('kubectl-keeping-back');
    writeFileSync(slow, keepingBack(scratch.path, `${programs}/kubectl`));
    chmodSync(slow, 0o755);
    const first = type(['--resume', 'default/back'], 120, slow);
    await releases('back');
    await eventually(() => assert.ok(existsSync(scratch.join('kept-back'))), 60_000);
    // Back to the first node: the claim is being deleted when this is cut short.
    plays('node-a', 'done - node-a');
    const second = await type(['--resume', 'default/back'], 15);
    assert.equal(second.status, 124, second.stderr);
    const claim = await server.kubectl.run(['get', 'pvc', 'back', '-o', 'jsonpath={.metadata.deletionTimestamp}']);
    assert.notEqual(claim, '');
    writeFileSync(scratch.join('let-on'), '');
    assert.equal((await first).status, 0);
    assert.deepEqual(
      (await placesOf('back')).map(({ name, policy }) => [name, policy]),
      [
        ['pv-back-moved-1', 'Retain'],
        ['pv-back-moved-2', 'Retain'],
      ],
    );
    await releases('back');
    const { status, stderr } = await type(['--resume', 'default/back']);
    assert.equal(status, 0, stderr);
    assert.deepEqual(
      (await placesOf('back')).map(({ name, node, policy }) => [name, node, policy]),
      [['pv-back-moved-2', 'node-a', 'Delete']],
    );
  });

  test('changes nothing if the move has failed while it waited for an answer', async () => {
    await created('asked');
    await usedBy('asking', 'asked', 'StatefulSet');
    plays('node-a', 'running waiting node-b', 'failed - node-b');
    const words = ['default/asked', '--to', 'node-b'];
    const { shown, status } = await typeAtTerminal(
      words,
      /delete the pod asking \(StatefulSet\), so that it starts on node-b/,
      'y\n',
    );
    assert.equal(status, 1, shown);
    assert.match(shown, /default\/asked is on node-a/);
    const pod = await server.kubectl.run(['get', 'pod', 'asking', '-o', 'jsonpath={.metadata.deletionTimestamp}']);
    assert.equal(pod, '');
    assert.deepEqual(
      (await placesOf('asked')).map(({ name, node }) => [name, node]),
      [['pv-asked', 'node-a']],
    );
  });

  test('of a move that failed leaves all as it was', async () => {
    await created('failed');
    plays('node-a', 'running copying node-b', 'failed - node-b');
    const { status, stderr } = await type(['default/failed', '--to', 'node-b', '--yes']);
    assert.equal(status, 1);
    assert.match(stderr, /default\/failed is on node-a: a line for people/);
    assert.deepEqual(
      (await placesOf('failed')).map(({ name, node, policy }) => [name, node, policy]),
      [['pv-failed', 'node-a', 'Delete']],
    );
  });

  test('that failed after its pod was deleted has the next pod made again, which waits on the other node', async () => {
    await created('return');
    await usedBy('returning', 'return', 'StatefulSet');
    plays('node-a', ...Array<string>(8).fill('running waiting node-b'), 'failed - node-b');
    const typing = type(['default/return', '--to', 'node-b', '--yes']);
    const deletedAt = (pod: string) =>
      server.kubectl.run(['get', 'pod', pod, '-o', 'jsonpath=[{.metadata.deletionTimestamp}]']);
    await eventually(async () => assert.notEqual(await deletedAt('returning'), '[]'), 30_000);
    await releases('return');
    await usedBy('waiting-there', 'return', 'StatefulSet', 'node-b');
    await eventually(async () => assert.notEqual(await deletedAt('waiting-there'), '[]'), 60_000);
    await usedBy('back-already', 'return', 'StatefulSet', 'node-a');
    await releases('return');
    const { status, stderr } = await typing;
    assert.equal(status, 1, stderr);
    assert.match(stderr, /default\/return is on node-a: a line for people/);
    assert.equal(await deletedAt('back-already'), '[]');
    assert.deepEqual(
      (await placesOf('return')).map(({ name, node, policy }) => [name, node, policy]),
      [['pv-return-moved-2', 'node-a', 'Delete']],
    );
  });

  test('that no node has told yet is asked for again', async () => {
    await created('late');
    plays('node-a', ...Array<string>(8).fill('none - -'), 'cancelled - node-b');
    const { status, stderr, stdout } = await type(['default/late', '--to', 'node-b', '--when-idle']);
    assert.equal(status, 1, stdout);
    assert.match(stderr, /default\/late is on node-a: a line for people/);
  });

  test('has moved only if the volume is on the node that was said', async () => {
    await created('elsewhere');
    plays('node-a', 'done - node-b');
    const { status, stderr, stdout } = await type(['default/elsewhere', '--to', 'node-b', '--when-idle']);
    assert.equal(status, 1, stdout);
    assert.match(stderr, /default\/elsewhere is on node-a/);
    plays('-', 'done - node-b');
    const unsure = await type(['default/elsewhere', '--to', 'node-b', '--when-idle']);
    assert.equal(unsure.status, 1, unsure.stdout);
    assert.match(unsure.stderr, /it is not certain which node has the volume/);
    assert.deepEqual(
      (await placesOf('elsewhere')).map(({ name, node }) => [name, node]),
      [['pv-elsewhere', 'node-a']],
    );
  });

  test('deletes the pod although the API server has refused it at first', async () => {
    await created('patient');
    await usedBy('db', 'patient', 'StatefulSet');
    const kubectl = scratch.join('kubectl-once');
    writeFileSync(kubectl, onceFailing(scratch.path, `${programs}/kubectl`));
    chmodSync(kubectl, 0o755);
    plays('node-b', ...Array<string>(4).fill('running waiting node-b'), 'done - node-b');
    const typing = type(['default/patient', '--to', 'node-b', '--yes'], 60, kubectl);
    const [typed] = await Promise.all([typing, releases('patient')]);
    assert.equal(typed.status, 0, typed.stderr);
    assert.match(
      typed.stdout,
      /default\/patient is on node-b\.\nFrom the deletion of its pod on, it could not be used for \d+ s\.\n$/,
    );
    assert.match(typed.stderr, /cannot list the pods of default/);
    assert.match(typed.stderr, /cannot delete the pod/);
    const ended = await server.kubectl.run(['get', 'pod', 'db', '-o', 'jsonpath={.metadata.deletionTimestamp}']);
    assert.notEqual(ended, '');
  });

  test('has a pod made again that came before its claim was bound, and none that has got its node', async () => {
    await created('early');
    await usedBy('first', 'early', 'StatefulSet');
    plays('node-b', 'running waiting node-b', 'done - node-b');
    const typing = type(['default/early', '--to', 'node-b', '--yes']);
    const deletedAt = (pod: string) =>
      server.kubectl.run(['get', 'pod', pod, '--ignore-not-found', '-o', 'jsonpath=[{.metadata.deletionTimestamp}]']);
    await eventually(async () => assert.notEqual(await deletedAt('first'), '[]'), 30_000);
    await usedBy('early-bird', 'early', 'StatefulSet', '');
    await usedBy('in-time', 'early', 'StatefulSet', 'node-b');
    // A deleted pod counts as one that has failed there.
    await usedBy('of-a-job', 'early', 'Job', '');
    await releases('early');
    const { status, stderr } = await typing;
    assert.equal(status, 0, stderr);
    const deleted = await Promise.all(['early-bird', 'in-time', 'of-a-job'].map(deletedAt));
    assert.deepEqual(deleted, ['', '[]', '[]']);
  });

  test('asks for each claim, whatever the answer for the one before', async () => {
    for (const claim of ['one', 'two']) {
      await created(claim);
      await usedBy(`pod-${claim}`, claim, 'StatefulSet');
    }
    const waiting = Array<string>(8).fill('running waiting node-b');
    plays('node-a', ...waiting.slice(0, 3), 'cancelled - node-b', ...waiting, 'cancelled - node-b');
    const words = ['default/one', 'default/two', '--to', 'node-b'];
    const { shown } = await typeAtTerminal(words, /delete the pod pod-one/, 'n\nn\n');
    assert.match(shown, /delete the pod pod-two/);
  });

  test('does not delete a pod that nothing starts again, and says so', async () => {
    await created('alone');
    await usedBy('bare', 'alone');
    plays('node-a', ...Array<string>(3).fill('running waiting node-b'), 'cancelled - node-b');
    const { stderr } = await type(['default/alone', '--to', 'node-b', '--yes']);
    assert.match(stderr, /the pod bare has no controller that starts it again.* start it on node-b then/);
    assert.equal(await server.kubectl.run(['get', 'pod', 'bare', '-o', 'jsonpath={.metadata.deletionTimestamp}']), '');
  });

  test('deletes the other pods of the claim once that one is gone', async () => {
    await created('mixed');
    await usedBy('lone', 'mixed');
    await usedBy('of-a-set', 'mixed', 'StatefulSet');
    plays('node-b', 'running waiting node-b');
    const typing = type(['default/mixed', '--to', 'node-b', '--yes']);
    const looks = () => readFileSync(scratch.join('asked'), 'utf8').match(/v1\/moves$/gm)?.length ?? 0;
    await eventually(() => assert.ok(looks() >= 7), 60_000);
    const deletedAt = () =>
      server.kubectl.run(['get', 'pod', 'of-a-set', '-o', 'jsonpath={.metadata.deletionTimestamp}']);
    assert.equal(await deletedAt(), '');
    await server.kubectl.run(['delete', 'pod', 'lone', '--force', '--grace-period=0']);
    await eventually(async () => assert.notEqual(await deletedAt(), ''), 30_000);
    plays('node-b', 'done - node-b');
    const [typed] = await Promise.all([typing, releases('mixed')]);
    assert.equal(typed.status, 0, typed.stderr);
    assert.equal(typed.stderr.match(/the pod lone has no controller/g)?.length, 1);
  });

  test('refuses a claim that is deleted with its pod', async () => {
    await created('scratch-tmp');
    const owner = { apiVersion: 'v1', kind: 'Pod', name: 'scratch', uid: moveId, controller: true };
    const patch = JSON.stringify({ metadata: { ownerReferences: [owner] } });
    await server.kubectl.run(['patch', 'pvc', 'scratch-tmp', '--type=merge', '-p', patch]);
    plays('node-a', 'running waiting node-b');
    const { status, stderr } = await type(['default/scratch-tmp', '--to', 'node-b', '--yes']);
    assert.equal(status, 1);
    assert.match(stderr, /default\/scratch-tmp belongs to the pod scratch, and is deleted with it/);
    assert.equal(readFileSync(scratch.join('asked'), 'utf8'), '');
  });

  test('changes no policy where the second PersistentVolume cannot be made', async () => {
    await created('kept');
    await usedBy('keeper', 'kept', 'StatefulSet');
    const {
      metadata: _metadata,
      status: _status,
      ...other
    } = JSON.parse(await server.kubectl.run(['get', 'pv', 'pv-kept', '-o', 'json']));
    other.spec.claimRef = { namespace: 'default', name: 'third' };
    await apply({ ...other, metadata: { name: 'pv-kept-moved-1' } });
    plays('node-a', ...Array<string>(4).fill('running waiting node-b'), 'cancelled - node-b');
    const { status, stderr } = await type(['default/kept', '--to', 'node-b', '--yes']);
    assert.equal(status, 1);
    assert.match(stderr, /pv-kept-moved-1" already exists/);
    assert.deepEqual(
      (await placesOf('kept')).map(({ name, node, policy }) => [name, node, policy]),
      [['pv-kept', 'node-a', 'Delete']],
    );
  });

  test('of all claims of a node says what stays there', async () => {
    await created('released', 'node-x');
    await created('drained', 'node-x');
    for (const [claim, phase] of Object.entries({ released: 'Released', drained: 'Bound' })) {
      const status = JSON.stringify({ status: { phase } });
      await server.kubectl.run(['patch', 'pv', `pv-${claim}`, '--subresource=status', '--type=merge', '-p', status]);
    }
    plays('node-x', 'cancelled - node-b');
    const dry = await type(['--from', 'node-x', '--to', 'node-b', '--dry-run']);
    assert.equal(dry.status, 1);
    assert.match(dry.stderr, /these stay on node-x: default\/released \(pv-released, Released\)$/m);
    const { status, stderr } = await type(['--from', 'node-x', '--to', 'node-b', '--when-idle']);
    assert.equal(status, 1);
    assert.match(stderr, /these stay on node-x: default\/drained \(pv-drained, Bound\), default\/released/);
    assert.match(
      stderr,
      /no PersistentVolume says that these are on node-x, and they are: vol-left \(default\/left\)\./,
    );
    const stays =
      'these snapshots stay on node-x: snapshot-1 (of vol-x), snapshot-2 (of vol-left). They can be restored';
    for (const said of [dry.stderr, stderr]) assert.ok(said.includes(stays), said);
    plays('node-x', 'cancelled - node-b');
    const following = await type(['--from', 'node-x', '--to', 'node-b', '--when-idle', '--with-snapshots']);
    assert.equal(following.status, 1);
    const still =
      /these snapshots are still on node-x, or on their way: snapshot-1 \(of vol-x\), snapshot-2 \(of vol-left\)\. See /;
    assert.match(following.stderr, still);
    assert.doesNotMatch(following.stderr, /snapshots stay/);
    const wouldFollow = await type(['--from', 'node-x', '--to', 'node-b', '--dry-run', '--with-snapshots']);
    assert.doesNotMatch(wouldFollow.stderr, /snapshots/);
    const behind = await type(['--from', 'node-y', '--to', 'node-b']);
    assert.equal(behind.status, 1);
    assert.doesNotMatch(behind.stderr, /snapshot/);
    assert.match(behind.stderr, /no claim is on node-y.*on node-y, and they are: vol-x, vol-left \(default\/left\)/s);
    const away = await type(['--from', 'node-away', '--to', 'node-b']);
    assert.equal(away.status, 1);
    assert.match(
      away.stderr,
      /no claim is on node-away.*it is away.*not certain what else is on node-away.*which snapshots are on node-away/s,
    );
  });

  test('of all claims of a node fails if it may not list them', async () => {
    await server.kubectl.run(['create', 'serviceaccount', 'bob', '-n', 'default']);
    await server.kubectl.run([
      ...['-n', 'holdfast-system', 'create', 'rolebinding', 'bob', '--role=holdfast-operator'],
      '--serviceaccount=default:bob',
    ]);
    const { status, stderr } = await type([
      ...['--from', 'node-a', '--to', 'node-b', '--as', 'system:serviceaccount:default:bob'],
    ]);
    assert.equal(status, 1);
    assert.match(stderr, /nothing is known of what is on node-a/);
  });

  test('takes --dry-run or --resume', async () => {
    plays('node-b', 'done - node-b');
    const { status, stderr } = await type(['--resume', 'default/whole', '--dry-run']);
    assert.equal(status, 2);
    assert.match(stderr, /take one of both/);
  });

  test('takes its snapshots along, and says so and where it goes in the order alone', async () => {
    plays('node-b', 'running copying node-b', 'done - node-b');
    const words = ['default/whole', '--to', 'node-b', '--to-pool', 'fast', '--limit', '100Mi', '--with-snapshots'];
    const { status, stderr, stdout } = await type(words);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /default\/whole is on node-b\.\nIts snapshots follow it/);
    const [ordered, ...others] = readFileSync(scratch.join('asked'), 'utf8').trim().split('\n');
    const ofOrder = /to-pool=fast.*limit=100Mi.*with-snapshots=true.*v1\/moves\/start/;
    assert.match(ordered ?? '', ofOrder);
    for (const other of others) assert.doesNotMatch(other, /to-pool|limit=|with-snapshots/);
    assert.equal((await type(['--resume', 'default/whole', '--with-snapshots'])).status, 2);
  });

  test('tells a user which rights it lacks, and changes nothing', async () => {
    await created('denied');
    plays('node-a', 'running copying node-b');
    await server.kubectl.run(['create', 'serviceaccount', 'alice', '-n', 'default']);
    await server.kubectl.run([
      ...['-n', 'holdfast-system', 'create', 'rolebinding', 'alice', '--role=holdfast-operator'],
      '--serviceaccount=default:alice',
    ]);
    await server.kubectl.run([
      'create',
      'clusterrole',
      'pv-reader',
      '--verb=get,list',
      '--resource=persistentvolumes,persistentvolumeclaims,pods',
    ]);
    await server.kubectl.run([
      ...['create', 'clusterrolebinding', 'alice-pvs', '--clusterrole=pv-reader', '--serviceaccount=default:alice'],
    ]);
    const { status, stderr } = await type([
      ...['default/denied', '--to', 'node-b', '--yes', '--as', 'system:serviceaccount:default:alice'],
    ]);
    assert.equal(status, 1);
    assert.match(
      stderr,
      /holdfast: default\/denied does not move, and this command has changed nothing of it: you lack these rights: patch persistentvolumes, delete pods -n default, create persistentvolumes/,
    );
    assert.deepEqual(
      (await placesOf('denied')).map(({ node, policy }) => [node, policy]),
      [['node-a', 'Delete']],
    );
  });
});
