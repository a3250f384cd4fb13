import type { Kubectl } from './kubectl.ts';
import type { Manifest } from './objects.ts';

/** How long anything in a cluster may take before it has failed: twice the kubelet's longest pause between two tries. */
const usualPatienceSeconds = 240;

/** A namespace of a test's own, and what a user does in it. Objects are named as for kubectl: `pod/a`, `pvc/data`. */
export class Namespace {
  readonly name: string;
  readonly #kubectl: Kubectl;
  /** As kubectl takes it. */
  readonly #patience: string;

  private constructor(kubectl: Kubectl, name: string, patienceSeconds: number) {
    this.#kubectl = kubectl;
    this.#patience = `${patienceSeconds}s`;
    this.name = name;
  }

  static async make(
    kubectl: Kubectl,
    name: string,
    { patienceSeconds = usualPatienceSeconds }: { readonly patienceSeconds?: number } = {},
  ): Promise<Namespace> {
    const namespace = new Namespace(kubectl, name, patienceSeconds);
    await kubectl.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name } }]);
    // A pod is refused until its service account is there.
    await namespace.wait('--for=create', 'serviceaccount/default');
    return namespace;
  }

  async apply(...objects: readonly Manifest[]): Promise<void> {
    await this.#kubectl.apply(objects, this.#here);
  }

  /** Runs `kubectl …` in this namespace; what it printed. */
  run(parameters: readonly string[]): Promise<string> {
    return this.#kubectl.run([...this.#here, ...parameters]);
  }

  /** One value of an object; empty if it has none. */
  field(object: string, path: string): Promise<string> {
    return this.run(['get', object, `-o=jsonpath={${path}}`]);
  }

  /** `kubectl wait`, with a condition as it takes them. */
  async wait(condition: string, ...objects: readonly string[]): Promise<void> {
    await this.run(['wait', condition, `--timeout=${this.#patience}`, ...objects]);
  }

  async running(...pods: readonly string[]): Promise<void> {
    await this.wait('--for=condition=Ready', ...pods.map((name) => `pod/${name}`));
  }

  async bound(...claims: readonly string[]): Promise<void> {
    await this.wait('--for=jsonpath={.status.phase}=Bound', ...claims.map((name) => `pvc/${name}`));
  }

  /** Until they are gone. */
  async remove(...objects: readonly string[]): Promise<void> {
    await this.run(['delete', `--timeout=${this.#patience}`, ...objects]);
  }

  /** A script in a pod's container; what it printed. */
  async exec(pod: string, script: string): Promise<string> {
    return (await this.run(['exec', pod, '--', 'sh', '-ec', script])).trimEnd();
  }

  /** The volume that a claim is bound to: the name of its PersistentVolume and its CSI handle. */
  async volumeOf(claim: string): Promise<{ readonly name: string; readonly handle: string }> {
    const name = await this.field(`pvc/${claim}`, '.spec.volumeName');
    return { name, handle: await this.field(`pv/${name}`, '.spec.csi.volumeHandle') };
  }

  /** What Kubernetes says happened to an object. */
  events(object: string): Promise<string> {
    const path = '-o=jsonpath={range .items[*]}{.type} {.reason}: {.message}{"\\n"}{end}';
    return this.run(['events', '--for', object, path]);
  }

  /** All there is to see, for whoever has to find out why a test failed. */
  async describe(): Promise<string> {
    const looks = [
      ['get', 'pods,pvc,volumesnapshots', '-o', 'wide'],
      ['get', 'pv'],
      ['get', 'events', '--sort-by=.metadata.creationTimestamp'],
    ];
    const texts = await Promise.all(looks.map((look) => this.run(look).catch((error: unknown) => String(error))));
    return texts.join('\n');
  }

  /** With all that is in it; returns when the volumes of its claims are gone, too. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kubectl.run(['delete', 'namespace', this.name, `--timeout=${this.#patience}`]);
  }

  get #here(): string[] {
    return ['--namespace', this.name];
  }
}
