package resource

import (
	"context"
	"reflect"
	"strconv"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
)

// named is the field by which the API document knows a struct without a name.
func named(component string) reflect.StructField {
	return reflect.StructField{Name: "Component", Type: reflect.TypeFor[struct{}](), Tag: reflect.StructTag(`component:"` + component + `"`)}
}

// one is an answer with one record.
type one[R, I any] struct {
	object *Object[R, I]
	record R
}

// AppendJSON implements endpoint.Appender.
func (a *one[R, I]) AppendJSON(dst []byte) []byte {
	if a.object.bare {
		return a.object.AppendJSON(dst, a.record)
	}
	dst = append(dst, `{"`+a.object.name+`":`...)
	return append(a.object.AppendJSON(dst, a.record), '}')
}

// oneType looks like an answer with one record.
func (o *Object[R, I]) oneType() reflect.Type {
	if o.bare {
		return o.Type()
	}
	return reflect.StructOf([]reflect.StructField{
		named(upper(o.name)),
		{Name: "Record", Type: reflect.PointerTo(o.Type()), Tag: reflect.StructTag(`json:"` + o.name + `"`)},
	})
}

func upper(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// answer is the answer of a route with one record.
func (o *Object[R, I]) answer(record R, err error) (any, error) {
	if err != nil {
		return nil, o.wrong(err)
	}
	return &one[R, I]{o, record}, nil
}

// bodyOf returns the struct of a body and of the path's parameter, and how an input is made of one.
func (o *Object[R, I]) bodyOf(of use, pattern string) (reflect.Type, func(reflect.Value) *I) {
	fields := o.pathOf(pattern)
	var puts []func(*I, reflect.Value)
	for _, field := range o.fields {
		declared, put, is := field.body(of)
		if !is {
			continue
		}
		at := len(fields)
		fields = append(fields, declared)
		puts = append(puts, func(in *I, body reflect.Value) { put(in, body.Field(at)) })
	}
	return reflect.StructOf(fields), func(body reflect.Value) *I {
		in := new(I)
		if o.under != nil {
			*o.under(in) = body.Field(0).String()
		}
		for _, put := range puts {
			put(in, body)
		}
		return in
	}
}

// pathOf is the field of a route's path parameter, which is its record's key; none of a path without.
func (o *Object[R, I]) pathOf(pattern string) []reflect.StructField {
	_, rest, has := strings.Cut(pattern, "{")
	name, _, _ := strings.Cut(rest, "}")
	if !has {
		return nil
	}
	tag := "path:" + strconv.Quote(name)
	if o.key != "" {
		tag += " doc:" + strconv.Quote(o.key)
	}
	return []reflect.StructField{{Name: "Key", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(tag)}}
}

// Create declares the route that makes a record, and answers 201 with it.
func (o *Object[R, I]) Create(pattern, needs string, add func(context.Context, I) (R, error), options ...endpoint.Option) endpoint.Route {
	body, input := o.bodyOf(create, pattern)
	options = append([]endpoint.Option{endpoint.Once(), endpoint.Status(201)}, options...)
	return endpoint.OnDeclared(pattern, needs, endpoint.Declared{Name: "create" + upper(o.name), In: body, Out: o.oneType()},
		func(ctx context.Context, in reflect.Value) (any, error) { return o.answer(add(ctx, *input(in))) }, options...)
}

// Change declares a route that changes what its body names of a record: PATCH, or PUT where the specification has it so.
func (o *Object[R, I]) Change(
	pattern, needs, name string, edit func(context.Context, string, I) (R, error), options ...endpoint.Option,
) endpoint.Route {
	body, input := o.bodyOf(change, pattern)
	return endpoint.OnDeclared(pattern, needs, endpoint.Declared{Name: name, In: body, Out: o.oneType()},
		func(ctx context.Context, in reflect.Value) (any, error) {
			return o.answer(edit(ctx, in.Field(0).String(), *input(in)))
		}, options...)
}

// Read declares a route of one record.
func (o *Object[R, I]) Read(
	pattern, needs, name string, find func(context.Context, string) (R, error), options ...endpoint.Option,
) endpoint.Route {
	return endpoint.OnDeclared(pattern, needs, endpoint.Declared{Name: name, In: reflect.StructOf(o.pathOf(pattern)), Out: o.oneType()},
		func(ctx context.Context, in reflect.Value) (any, error) {
			return o.answer(find(ctx, in.Field(0).String()))
		}, options...)
}

// Success is the body of an answer that has nothing else to say.
type Success struct {
	Success bool `json:"success"`
}

// Deleted is the answer of bare records when one is gone.
type Deleted struct {
	Deleted bool   `json:"deleted"`
	ID      string `json:"id"`
}

// Delete declares the route that deletes a record.
func (o *Object[R, I]) Delete(pattern, needs string, remove func(context.Context, string) error, options ...endpoint.Option) endpoint.Route {
	declared := endpoint.Declared{Name: "delete" + upper(o.name), In: reflect.StructOf(o.pathOf(pattern)), Out: reflect.TypeFor[Success]()}
	if o.bare {
		declared.Out = reflect.TypeFor[Deleted]()
	}
	return endpoint.OnDeclared(pattern, needs, declared, func(ctx context.Context, in reflect.Value) (any, error) {
		key := in.Field(0).String()
		if err := remove(ctx, key); err != nil {
			return nil, o.wrong(err)
		}
		if o.bare {
			return &Deleted{true, key}, nil
		}
		return &Success{true}, nil
	}, options...)
}

// many is an answer with the records of a list.
type many[R, I any] struct {
	object  *Object[R, I]
	records []R
	page    *Pagination // nil = all there are
}

// AppendJSON implements endpoint.Appender.
func (a *many[R, I]) AppendJSON(dst []byte) []byte {
	dst = append(dst, a.object.head()...)
	dst = wire.AppendList(dst, a.records, a.object.AppendJSON)
	if a.page != nil {
		dst, _ = rawjson.AppendValue(append(dst, `,"pagination":`...), a.page) // plain data
	}
	return append(dst, '}')
}

// head begins an answer with many records.
func (o *Object[R, I]) head() string {
	if o.bare {
		return `{"object":"list","data":`
	}
	return `{"` + o.member + `":`
}

// manyType looks like an answer with many records, and what else it has.
func (o *Object[R, I]) manyType(more ...reflect.StructField) reflect.Type {
	fields := []reflect.StructField{named(upper(o.name) + "List")}
	member := o.member
	if o.bare {
		fields = append(fields, reflect.StructField{Name: "Object", Type: reflect.TypeFor[string](), Tag: `json:"object" enum:"list"`})
		member = "data"
	}
	fields = append(fields, reflect.StructField{
		Name: "Records", Type: reflect.SliceOf(reflect.PointerTo(o.Type())), Tag: reflect.StructTag(`json:"` + member + `"`),
	})
	return reflect.StructOf(append(fields, more...))
}

// List declares the route of all records that fit a query.
func List[Q, R, I any](o *Object[R, I], pattern, needs string, find func(context.Context, *Q) ([]R, error), options ...endpoint.Option) endpoint.Route {
	declared := endpoint.Declared{Name: "list" + upper(o.plural), In: reflect.TypeFor[Q](), Out: o.manyType()}
	return endpoint.OnDeclared(pattern, needs, declared, func(ctx context.Context, in reflect.Value) (any, error) {
		query, _ := in.Addr().Interface().(*Q) // always: see In
		records, err := find(ctx, query)
		if err != nil {
			return nil, o.wrong(err)
		}
		return &many[R, I]{o, records, nil}, nil
	}, options...)
}

// Pagination says where a page stands that is asked for by offset.
type Pagination struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"hasMore"`
}

// Paginate says where a page of a list stands that has a total number of entries.
func Paginate(limit, offset, total int) Pagination {
	return Pagination{Limit: limit, Offset: offset, HasMore: limit < total-min(offset, total)}
}

// Pages is List for a page of the records at a time.
func Pages[Q, R, I any](
	o *Object[R, I], pattern, needs string, find func(context.Context, *Q) ([]R, Pagination, error), options ...endpoint.Option,
) endpoint.Route {
	pagination := reflect.StructField{Name: "Pagination", Type: reflect.TypeFor[Pagination](), Tag: `json:"pagination"`}
	declared := endpoint.Declared{Name: "list" + upper(o.plural), In: reflect.TypeFor[Q](), Out: o.manyType(pagination)}
	return endpoint.OnDeclared(pattern, needs, declared, func(ctx context.Context, in reflect.Value) (any, error) {
		query, _ := in.Addr().Interface().(*Q) // always: see In
		records, page, err := find(ctx, query)
		if err != nil {
			return nil, o.wrong(err)
		}
		return &many[R, I]{o, records, &page}, nil
	}, options...)
}
