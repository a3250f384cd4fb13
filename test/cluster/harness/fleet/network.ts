import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ClusterDirectory, NodePlace } from '../directory.ts';
import type { Namespaces } from './namespaces.ts';

/**
 * What several nodes share: one Ethernet of bridges without a way out, in which each pod has an address. The API server is
 * on it under the address that Kubernetes tells pods, so nothing need forward packets to it.
 */
export const fleetNetwork = {
  apiServer: '10.213.128.1',
  serviceRange: '10.213.128.0/17',
  nameServer: '10.213.128.10',
} as const;
const prefixLength = 16;

/** Of one node: its own address ends in 1, its pods have those that follow. */
export interface Addresses {
  /** Three numbers with dots. */
  readonly block: string;
  readonly node: string;
}

/** @param index from 1 */
export function addressesOf(index: number): Addresses {
  return { block: `10.213.${index}`, node: `10.213.${index}.1` };
}

/** The bridge that nodes are plugged into, on this machine. It goes with the directory. */
export function makeNetwork(directory: ClusterDirectory): void {
  // One of a run that was killed has the same addresses.
  for (const left of readdirSync('/sys/class/net').filter((name) => name.startsWith(bridgePrefix))) {
    ip('link', 'delete', left);
  }
  const bridge = bridgeOf(directory.name);
  ip('link', 'add', bridge, 'type', 'bridge');
  for (const address of [fleetNetwork.apiServer, fleetNetwork.nameServer]) {
    ip('address', 'add', `${address}/${prefixLength}`, 'dev', bridge);
  }
  ip('link', 'set', bridge, 'up');
}

/** Removes what `makeNetwork` made for the cluster of that name, if it did. */
export function removeNetwork(clusterName: string): void {
  const bridge = bridgeOf(clusterName);
  if (existsSync(join('/sys/class/net', bridge))) ip('link', 'delete', bridge);
}

/** The link of one node to the others and to the API server. */
export class Uplink {
  readonly #device: string;

  private constructor(device: string) {
    this.#device = device;
  }

  /** Plugs a node in: its processes and pods are on the network then. */
  static async plugIn(
    directory: ClusterDirectory,
    index: number,
    namespaces: Namespaces,
    { node }: Addresses,
  ): Promise<Uplink> {
    const bridge = bridgeOf(directory.name);
    const device = `${bridge}-${index}`;
    const inside = ['peer', 'name', 'uplink', 'netns', String(namespaces.pid)];
    ip('link', 'add', device, 'type', 'veth', ...inside);
    ip('link', 'set', device, 'master', bridge, 'up');
    const setUp = `
ip link add pods type bridge
ip link set uplink master pods up
ip address add ${node}/${prefixLength} dev pods
ip link set pods up
ip link set lo up`;
    await namespaces.run(['sh', '-ec', setUp]);
    return new Uplink(device);
  }

  /** As if somebody had pulled the cable: what runs on the node goes on. */
  block(): void {
    ip('link', 'set', this.#device, 'down');
  }

  unblock(): void {
    ip('link', 'set', this.#device, 'up');
  }
}

/** A network plugin (https://www.cni.dev/docs/spec/) that says yes and does nothing: pods have a loopback device. */
export function writeNoNetwork(place: NodePlace): void {
  const result = { cniVersion: '1.0.0', interfaces: [], ips: [{ address: '127.0.0.2/32' }] };
  writePlugin(place, 'no-network', `ADD) echo '${JSON.stringify(result)}' ;;`);
}

/** A network plugin that plugs each pod into the node's bridge, under the first address that no other pod has. */
export function writePodNetwork(place: NodePlace, { block, node }: Addresses): void {
  const addresses = place.makeDirectory('addresses');
  const commands = `
  ADD)
    exec 9>'${addresses}/lock'
    flock 9
    n=2
    while [ -e '${addresses}/'$n ]; do n=$((n + 1)); done
    echo "$CNI_CONTAINERID" > '${addresses}/'$n
    ip link add "pod$n" type veth peer name eth0 netns "$CNI_NETNS" >&2
    ip link set "pod$n" master pods up >&2
    nsenter --net="$CNI_NETNS" ip address add "${block}.$n/${prefixLength}" dev eth0 >&2
    nsenter --net="$CNI_NETNS" ip link set eth0 up >&2
    nsenter --net="$CNI_NETNS" ip route add default via ${node} >&2
    echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"'"$CNI_NETNS"'"}],"ips":[{"interface":0,"address":"${block}.'$n'/${prefixLength}"}]}'
    ;;
  DEL)
    # The link goes with the pod's end of it.
    for file in $(grep -lx "$CNI_CONTAINERID" '${addresses}/'[0-9]* 2>/dev/null); do
      ip link delete "pod\${file##*/}" 2>/dev/null || true
      rm -f "$file"
    done
    ;;`;
  writePlugin(place, 'pod-network', commands);
}

function writePlugin(place: NodePlace, name: string, commands: string): void {
  const plugin = join(place.makeDirectory('cni', 'bin'), name);
  const versions = { cniVersion: '1.0.0', supportedVersions: ['1.0.0'] };
  writeFileSync(
    plugin,
    `#!/bin/sh
set -e
cat >/dev/null
case "$CNI_COMMAND" in
  ${commands}
  VERSION) echo '${JSON.stringify(versions)}' ;;
esac
`,
  );
  chmodSync(plugin, 0o755);
  const network = { cniVersion: '1.0.0', name, plugins: [{ type: name }] };
  writeFileSync(join(place.makeDirectory('cni', 'conf'), `10-${name}.conflist`), JSON.stringify(network));
}

/** A device's name has at most 15 characters. */
const bridgePrefix = 'hf-';

function bridgeOf(clusterName: string): string {
  return `${bridgePrefix}${clusterName.slice(-6)}`;
}

function ip(...parameters: readonly string[]): void {
  execFileSync('ip', parameters);
}
