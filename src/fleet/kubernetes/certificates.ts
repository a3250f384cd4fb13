import { isSame, type Material, materialFor } from '../tls/material.ts';
import type { KubernetesApi } from './api.ts';
import { changeTexts, type ObjectPlace } from './stored-object.ts';

/**
 * Brings the controller's Secret to what it should hold now, and returns that. Several replicas may do so at a time.
 *
 * What nodes believe is in a ConfigMap beside it, for their pods to have: what a pod mounts, its kubelet may read as a
 * whole (docs/security.md), and in the Secret is the key by which anybody could pass for the controller.
 * @throws Unavailable
 */
export async function keepCertificates(api: KubernetesApi, place: ObjectPlace, now = new Date()): Promise<Material> {
  const material = await changeTexts(api, 'Secret', place, (current) => {
    // Whatever is in it is looked at before it is used.
    const wanted = materialFor(current, now);
    return { result: wanted, put: isSame(current, wanted) ? undefined : { ...wanted } };
  });
  const trusted = { 'ca.crt': material['ca.crt'] };
  await changeTexts(api, 'ConfigMap', place, (current) => ({
    result: undefined,
    put: current?.['ca.crt'] === trusted['ca.crt'] ? undefined : trusted,
  }));
  return material;
}
