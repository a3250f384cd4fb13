import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath, runToEnd } from './command.ts';
import { Daemon } from './daemon.ts';
import type { NodePlace } from './directory.ts';
import type { Namespaces } from './fleet/namespaces.ts';
import { type Addresses, writeNoNetwork, writePodNetwork } from './fleet/network.ts';
import { images } from './images.ts';

interface RuntimePlan {
  readonly programs: string;
  readonly place: NodePlace;
  /** Where it runs, of one of several nodes. Its pods have addresses there; else they have a loopback device alone. */
  readonly node?: { readonly namespaces: Namespaces; readonly addresses: Addresses };
}

/** containerd with Debian's runc. Images come from nowhere. */
export class ContainerRuntime implements AsyncDisposable {
  readonly socket: string;
  readonly #programs: string;
  readonly #daemon: Daemon;

  private constructor({ programs, place, node }: RuntimePlan, configFile: string) {
    const command = [join(programs, 'containerd'), '--config', configFile] as const;
    this.#programs = programs;
    this.socket = socketIn(place);
    this.#daemon = new Daemon({
      name: 'containerd',
      command: node === undefined ? command : node.namespaces.command(command),
      logFile: join(place.makeDirectory('logs'), 'containerd.log'),
      // It finds its shim there.
      env: { PATH: `${programs}:${process.env['PATH']}` },
    });
  }

  static async start(plan: RuntimePlan): Promise<ContainerRuntime> {
    const { node, place } = plan;
    const configFile = place.join('containerd.toml');
    writeFileSync(configFile, configuration(place, await programPath('runc')));
    if (node === undefined) writeNoNetwork(place);
    else writePodNetwork(place, node.addresses);
    const runtime = new ContainerRuntime(plan, configFile);
    await runtime.#daemon.ready(() => runtime.ctr(['version']));
    return runtime;
  }

  async importImage(archive: string): Promise<void> {
    await this.ctr(['images', 'import', archive]);
  }

  /** containerd's own command line, in Kubernetes' namespace. */
  ctr(parameters: readonly string[]): Promise<string> {
    const program = join(this.#programs, 'ctr');
    return runToEnd(program, ['--address', this.socket, '--namespace', 'k8s.io', ...parameters], {
      timeoutMs: 900_000,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
  }
}

function socketIn(place: NodePlace): string {
  return place.join('containerd.sock');
}

/** https://github.com/containerd/containerd/blob/main/docs/cri/config.md, version 3 */
function configuration(place: NodePlace, runc: string): string {
  const text = JSON.stringify;
  const runtime = 'plugins."io.containerd.cri.v1.runtime"';
  return `
version = 3
root = ${text(place.join('containerd', 'root'))}
state = ${text(place.join('containerd', 'state'))}
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = ${text(socketIn(place))}

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = ${text(images.pause)}

[plugins."io.containerd.cri.v1.images".registry]
config_path = ${text(writeRegistries(place))}

[${runtime}]
# Without CAP_SYS_RESOURCE a score cannot be lowered, and every sandbox would fail for trying.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[${runtime}.cni]
bin_dirs = [${text(place.join('cni', 'bin'))}]
conf_dir = ${text(place.join('cni', 'conf'))}
use_internal_loopback = true

[${runtime}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[${runtime}.containerd.runtimes.runc.options]
BinaryName = ${text(runc)}
Root = ${text(place.join('runc'))}
SystemdCgroup = false
`;
}

/** Whatever registry is asked for, it is a port of this machine on which nobody listens. */
function writeRegistries(place: NodePlace): string {
  const hosts = place.makeDirectory('registries', '_default');
  writeFileSync(join(hosts, 'hosts.toml'), '[host."http://127.0.0.1:1"]\n');
  return place.join('registries');
}
