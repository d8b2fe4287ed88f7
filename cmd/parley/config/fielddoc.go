package config

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"sync"
)

// The comments of the fields are the documentation of the settings, shown by --print-config and -h.
//
//go:embed config.go cluster.go auth.go agent.go human.go tool.go client.go accounts.go mail.go oidc.go webhook.go license.go
var source embed.FS

// fieldDocs maps "Type" and "Type.Field" to their comments, each as one line.
var fieldDocs = sync.OnceValue(func() map[string]string { //nolint:gochecknoglobals // computed once, never changed
	docs := map[string]string{}
	entries, err := source.ReadDir(".")
	if err != nil {
		return docs
	}
	for _, entry := range entries {
		text, err := source.ReadFile(entry.Name())
		if err != nil {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), text, parser.ParseComments)
		if err != nil {
			continue
		}
		collectDocs(file, docs)
	}
	return docs
})

func collectDocs(file *ast.File, docs map[string]string) {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			typeSpec, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			docs[typeSpec.Name.Name] = oneLine(general.Doc.Text())
			structType, ok := typeSpec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range structType.Fields.List {
				for _, name := range f.Names {
					docs[typeSpec.Name.Name+"."+name.Name] = oneLine(f.Doc.Text())
				}
			}
		}
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
