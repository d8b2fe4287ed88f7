export * from '../../../../cmd/parley/testdata/page/node_modules/preact/src/index.d.ts';
