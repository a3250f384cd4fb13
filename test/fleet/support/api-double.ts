import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { z } from 'zod';
import { KubernetesApi } from '../../../src/fleet/kubernetes/api.ts';
import { makeAuthority, makeServer } from '../../../src/fleet/tls/certificate.ts';
import type { Scratch } from '../../support/scratch.ts';

/** What the double knows; a test changes it. */
export interface Known {
  readonly csiNodes: Set<string>;
  readonly labelled: Set<string>;
  /** PersistentVolumes: handle to node. */
  readonly volumes: Map<string, string>;
  /** Secrets and ConfigMaps, by resource and name: `secrets/holdfast-controller`. */
  readonly objects: Map<string, Record<string, unknown>>;
  /** By namespace and name. */
  readonly events: Map<string, Record<string, unknown>>;
  /** The parameters of our StorageClasses, by their names. */
  readonly classes: Map<string, Record<string, string>>;
  /** The taints of nodes, by their names. */
  readonly taints: Map<string, unknown[]>;
  /** The uids of nodes that were registered anew. */
  readonly uids: Map<string, string>;
  /** `USER LIST` of who may look at what, `USER VERB:LIST` of who may change it. */
  readonly viewers: Set<string>;
  /** PersistentVolumeClaims, by namespace and name. */
  readonly claims: Map<string, Record<string, unknown>>;
  /** Ends of paths that are answered with 503. */
  readonly refused: Set<string>;
  /** Those that are answered otherwise than they should be: status and body. */
  readonly answers: Map<string, readonly [number, unknown]>;
}

export const audience = 'holdfast.csi.dev/controller';
export const viewAudience = 'holdfast.csi.dev/view';
export const nodeUser = 'system:serviceaccount:holdfast:holdfast-node';

export interface TokenFacts {
  readonly node?: string;
  readonly audience?: string;
  readonly user?: string;
  readonly lifeSeconds?: number;
}

/**
 * The few answers of an API server that a controller needs, for tests that are about links: test/cluster has one against
 * a real one.
 */
export class ApiDouble implements AsyncDisposable {
  readonly known: Known = {
    csiNodes: new Set(),
    labelled: new Set(),
    volumes: new Map(),
    objects: new Map(),
    events: new Map(),
    taints: new Map(),
    uids: new Map(),
    classes: new Map(),
    viewers: new Set(),
    claims: new Map(),
    refused: new Set(),
    answers: new Map(),
  };
  /** How often was asked for what, by path. */
  readonly asked = new Map<string, number>();
  readonly authority: string;
  readonly url: string;
  reviews = 0;
  patches = 0;
  #nodeVersion = 1;
  readonly #server: Server;
  readonly #tokens = new Map<string, TokenFacts>();
  readonly #watches = new Set<ServerResponse>();

  private constructor(server: Server, authority: string, url: string) {
    this.#server = server;
    this.authority = authority;
    this.url = url;
    server.on('request', (request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<ApiDouble> {
    const from = new Date(Date.now() - 60_000);
    const authority = makeAuthority('double', { from, days: 1 });
    const { certificate, key } = makeServer('localhost', { ...authority, commonName: 'double' }, { from, days: 1 });
    const server = createServer({ cert: certificate, key });
    await new Promise<void>((resolve) => server.listen(0, 'localhost', () => resolve()));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    return new ApiDouble(server, authority.certificate, `https://localhost:${port}`);
  }

  /** A token as the kubelet brings it into a pod. */
  token(facts: TokenFacts): string {
    const claims = {
      aud: [facts.audience ?? audience],
      exp: Math.floor(Date.now() / 1000) + (facts.lifeSeconds ?? 3600),
    };
    const token = [
      'e30',
      Buffer.from(JSON.stringify(claims)).toString('base64url'),
      randomBytes(8).toString('hex'),
    ].join('.');
    this.#tokens.set(token, facts);
    return token;
  }

  /** Watchers list anew, and find what has changed. */
  changed(): void {
    for (const watch of this.#watches) watch.end();
    this.#watches.clear();
  }

  /** A client of it, with the files of an account in this directory. */
  client(scratch: Pick<Scratch, 'join'>): KubernetesApi {
    writeFileSync(scratch.join('ca.crt'), this.authority);
    writeFileSync(scratch.join('token'), 'controller');
    return new KubernetesApi({
      url: new URL(this.url),
      authorityPath: scratch.join('ca.crt'),
      tokenPath: scratch.join('token'),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.changed();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', this.url);
    if (searchParams.get('watch') !== null) {
      response.writeHead(200).flushHeaders();
      this.#watches.add(response);
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString());
    const [status, answer] = this.#reply(request.method ?? '', pathname, body);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }

  #reply(method: string, path: string, body: Record<string, unknown>): readonly [number, unknown] {
    const { csiNodes, labelled, volumes } = this.known;
    const list = (items: unknown[]) => [200, { metadata: { resourceVersion: '1' }, items }] as const;
    this.asked.set(path, (this.asked.get(path) ?? 0) + 1);
    for (const [end, answer] of this.known.answers) if (path.endsWith(end)) return answer;
    if ([...this.known.refused].some((end) => path.endsWith(end))) return [503, { message: 'not now' }];
    if (path.endsWith('/tokenreviews')) return [201, this.#review(body['spec'])];
    if (path.endsWith('/subjectaccessreviews')) return [201, this.#accessReview(body['spec'])];
    if (path.endsWith('/csinodes')) {
      const drivers = [{ name: 'holdfast.csi.dev' }];
      return list([...csiNodes].map((name) => ({ metadata: { name }, spec: { drivers } })));
    }
    if (path.endsWith('/nodes')) return list([...labelled].map((name) => ({ metadata: { name } })));
    if (path.endsWith('/persistentvolumes')) {
      return list([...volumes].map(([volumeHandle, node]) => persistentVolume(volumeHandle, node)));
    }
    if (path.startsWith('/api/v1/nodes/')) return this.#node(path.slice('/api/v1/nodes/'.length), method, body);
    const className = /\/storageclasses\/(.+)$/.exec(path)?.[1];
    if (className !== undefined) {
      const parameters = this.known.classes.get(className);
      return parameters === undefined ? [404, {}] : [200, { provisioner: 'holdfast.csi.dev', parameters }];
    }
    if (path.endsWith('/events')) return this.#event(path, body);
    const claim = /\/namespaces\/([^/]+)\/persistentvolumeclaims\/([^/]+)$/.exec(path);
    if (claim !== null) return stored(this.known.claims, `${claim[1]}/${claim[2]}`, method, body);
    const resource = /\/(secrets|configmaps)(?:\/|$)/.exec(path)?.[1];
    return stored(this.known.objects, `${resource}/holdfast-controller`, method, body);
  }

  #node(name: string, method: string, body: unknown): readonly [number, unknown] {
    const taints = this.known.taints.get(name);
    if (taints === undefined) return [404, { kind: 'Status', reason: 'NotFound', message: 'not found' }];
    const resourceVersion = `${this.#nodeVersion}`;
    if (method === 'PATCH') {
      const [test, add] = nodePatch.parse(body);
      this.patches++;
      // Somebody changes the node now and then. At each second patch, two replicas in step would never come to an end.
      if (this.patches % 5 === 1) this.#nodeVersion++;
      if (test.value !== `${this.#nodeVersion}`) return [422, { message: 'the test failed' }];
      this.#nodeVersion++;
      this.known.taints.set(name, add.value);
    }
    const uid = this.known.uids.get(name) ?? `uid-of-${name}`;
    return [200, { metadata: { resourceVersion, uid }, spec: taints.length === 0 ? {} : { taints } }];
  }

  #event(path: string, body: Record<string, unknown>): readonly [number, unknown] {
    const { metadata } = named.parse(body);
    assert.equal(path, `/api/v1/namespaces/${metadata.namespace}/events`);
    const key = `${metadata.namespace}/${metadata.name}`;
    if (this.known.events.has(key)) {
      return [409, { kind: 'Status', reason: 'AlreadyExists', message: 'it is there already' }];
    }
    this.known.events.set(key, body);
    return [201, body];
  }

  #accessReview(spec: unknown): object {
    const { resourceAttributes, user } = access.parse(spec);
    const { resource, verb } = resourceAttributes;
    const right = verb === 'get' ? resource : `${verb}:${resource}`;
    return { status: { allowed: this.known.viewers.has(`${user} ${right}`) } };
  }

  #review(spec: unknown): object {
    this.reviews++;
    const token = typeof spec === 'object' && spec !== null && 'token' in spec ? String(spec.token) : '';
    const facts = this.#tokens.get(token);
    if (facts === undefined) return { status: { authenticated: false } };
    const extra = facts.node === undefined ? {} : { 'authentication.kubernetes.io/node-name': [facts.node] };
    const user = { username: facts.user ?? nodeUser, extra };
    return { status: { authenticated: true, audiences: [facts.audience ?? audience], user } };
  }
}

/** Reads an object, or makes or changes it if nobody else has changed it meanwhile. */
function stored(
  objects: Map<string, Record<string, unknown>>,
  key: string,
  method: string,
  body: Record<string, unknown>,
): readonly [number, unknown] {
  const current = objects.get(key);
  if (method === 'GET') return current === undefined ? [404, { message: 'not found' }] : [200, current];
  const version = versionOf(current);
  if (versionOf(body) !== version) return [409, { message: 'somebody else was first' }];
  const metadata = { ...versioned.parse(body).metadata, resourceVersion: `${Number(version) + 1}` };
  objects.set(key, { ...body, metadata });
  return [200, objects.get(key)];
}

const versioned = z.object({ metadata: z.looseObject({ resourceVersion: z.string().optional() }) });

function versionOf(object: unknown): string {
  return versioned.safeParse(object).data?.metadata.resourceVersion ?? '';
}

const access = z.object({
  user: z.string(),
  resourceAttributes: z.object({
    group: z.literal('holdfast.csi.dev'),
    verb: z.enum(['create', 'get', 'update', 'delete']),
    resource: z.string(),
  }),
});

const nodePatch = z.tuple([
  z.object({ op: z.literal('test'), path: z.literal('/metadata/resourceVersion'), value: z.string() }),
  z.object({ op: z.literal('add'), path: z.literal('/spec/taints'), value: z.array(z.unknown()) }),
]);

const named = z.object({ metadata: z.object({ namespace: z.string(), name: z.string() }) });

function persistentVolume(volumeHandle: string, node: string) {
  const matchExpressions = [{ key: 'topology.holdfast.dev/node', operator: 'In', values: [node] }];
  return {
    metadata: { name: `pv-of-${volumeHandle}` },
    spec: {
      csi: { driver: 'holdfast.csi.dev', volumeHandle },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } },
      claimRef: { namespace: 'default', name: `claim-of-${volumeHandle}`, uid: `uid-of-${volumeHandle}` },
    },
    status: { phase: 'Bound' },
  };
}
