import { defineConfig } from 'vitest/config';

// TensorBoard imports ./index.js and calls its render(); everything else is a hashed file beside it.
// All addresses stay relative so that the page works under any path prefix. Workers are files of
// their own because TensorBoard's content security policy blocks blob: and data: workers.
export default defineConfig({
  base: './',
  publicDir: false,
  build: {
    outDir: '../tb_graph_ascend/static',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
    chunkSizeWarningLimit: 750,
    reportCompressedSize: false,
    rolldownOptions: {
      input: 'src/index.ts',
      preserveEntrySignatures: 'strict',
      output: {
        entryFileNames: 'index.js',
        chunkFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
  worker: {
    format: 'es',
    rolldownOptions: { output: { entryFileNames: 'assets/[name]-[hash].js' } },
  },
  test: {
    include: ['test/**/*.test.ts'],
    environment: 'node',
    // A test that takes long on a busy machine is not wrong.
    testTimeout: 0,
    hookTimeout: 0,
  },
});
