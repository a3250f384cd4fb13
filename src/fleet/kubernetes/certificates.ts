import { isSame, type Material, materialFor } from '../tls/material.ts';
import type { KubernetesApi } from './api.ts';
import { changeTexts, type ObjectPlace } from './stored-object.ts';

/**
 * Brings the controller's Secret up to date, and returns its content. Several replicas may do it at a time.
 *
 * The certificates that nodes trust are also in a ConfigMap beside it, for their pods: a kubelet may read everything
 * that its pods mount (docs/security.md), and the Secret has the key with which any program could pose as the
 * controller.
 * @throws Unavailable
 */
export async function keepCertificates(api: KubernetesApi, place: ObjectPlace, now = new Date()): Promise<Material> {
  const material = await changeTexts(api, 'Secret', place, (current) => {
    // The content is checked before use.
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
