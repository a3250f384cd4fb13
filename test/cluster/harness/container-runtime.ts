import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath, runToEnd } from './command.ts';
import { Daemon } from './daemon.ts';
import type { ClusterDirectory } from './directory.ts';
import { images } from './images.ts';

/** containerd with Debian's runc. Pods have a loopback device for a network, and images come from nowhere. */
export class ContainerRuntime implements AsyncDisposable {
  readonly socket: string;
  readonly #programs: string;
  readonly #daemon: Daemon;

  private constructor(programs: string, directory: ClusterDirectory, configFile: string) {
    this.#programs = programs;
    this.socket = socketIn(directory);
    this.#daemon = new Daemon({
      name: 'containerd',
      command: [join(programs, 'containerd'), '--config', configFile],
      logFile: join(directory.makeDirectory('logs'), 'containerd.log'),
      // It finds its shim there.
      env: { PATH: `${programs}:${process.env['PATH']}` },
    });
  }

  static async start(programs: string, directory: ClusterDirectory): Promise<ContainerRuntime> {
    const configFile = directory.join('containerd.toml');
    writeFileSync(configFile, configuration(directory, await programPath('runc')));
    writeNetwork(directory);
    const runtime = new ContainerRuntime(programs, directory, configFile);
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
      timeoutMs: 120_000,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
  }
}

function socketIn(directory: ClusterDirectory): string {
  return directory.join('containerd.sock');
}

/** https://github.com/containerd/containerd/blob/main/docs/cri/config.md, version 3 */
function configuration(directory: ClusterDirectory, runc: string): string {
  const text = JSON.stringify;
  const runtime = 'plugins."io.containerd.cri.v1.runtime"';
  return `
version = 3
root = ${text(directory.join('containerd', 'root'))}
state = ${text(directory.join('containerd', 'state'))}
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = ${text(socketIn(directory))}

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = ${text(images.pause)}

[plugins."io.containerd.cri.v1.images".registry]
config_path = ${text(writeRegistries(directory))}

[${runtime}]
# Without CAP_SYS_RESOURCE a score cannot be lowered, and every sandbox would fail for trying.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[${runtime}.cni]
bin_dirs = [${text(directory.join('cni', 'bin'))}]
conf_dir = ${text(directory.join('cni', 'conf'))}
use_internal_loopback = true

[${runtime}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[${runtime}.containerd.runtimes.runc.options]
BinaryName = ${text(runc)}
Root = ${text(directory.join('runc'))}
SystemdCgroup = false
`;
}

/** Whatever registry is asked for, it is a port of this machine on which nobody listens. */
function writeRegistries(directory: ClusterDirectory): string {
  const hosts = directory.makeDirectory('registries', '_default');
  writeFileSync(join(hosts, 'hosts.toml'), '[host."http://127.0.0.1:1"]\n');
  return directory.join('registries');
}

/** A network plugin that says yes and does nothing (https://www.cni.dev/docs/spec/). */
function writeNetwork(directory: ClusterDirectory): void {
  const plugin = join(directory.makeDirectory('cni', 'bin'), 'no-network');
  const result = { cniVersion: '1.0.0', interfaces: [], ips: [{ address: '127.0.0.2/32' }] };
  const versions = { cniVersion: '1.0.0', supportedVersions: ['1.0.0'] };
  writeFileSync(
    plugin,
    `#!/bin/sh
cat >/dev/null
case "$CNI_COMMAND" in
  ADD) echo '${JSON.stringify(result)}' ;;
  VERSION) echo '${JSON.stringify(versions)}' ;;
esac
`,
  );
  chmodSync(plugin, 0o755);
  const network = { cniVersion: '1.0.0', name: 'no-network', plugins: [{ type: 'no-network' }] };
  writeFileSync(join(directory.makeDirectory('cni', 'conf'), '10-no-network.conflist'), JSON.stringify(network));
}
