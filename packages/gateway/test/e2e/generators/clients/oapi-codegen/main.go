// Calls the server at the URL in the first argument with a generated client, and prints what it returns as JSON.
package main

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"client/gadgets"
)

var (
	at      = time.Date(2024, 2, 29, 12, 30, 15, 250_000_000, time.UTC)
	data    = []byte{0xfb, 0xff}
	anyPart = map[string]any{"@type": "type.googleapis.com/gadgets.v1.Part", "label": "any"}
)

var gadget = gadgets.Gadget{
	Name:        new("one"),
	Double:      new(0.1),
	Single:      new(float32(0.5)),
	Int32:       new(int32(-2147483648)),
	Int64:       new("-9007199254740993"),
	Uint32:      new(int64(4294967295)),
	Uint64:      new("18446744073709551615"),
	Sint32:      new(int32(-32)),
	Sint64:      new("-64"),
	Fixed32:     new(int64(3000000000)),
	Fixed64:     new("64"),
	Sfixed32:    new(int32(32)),
	Sfixed64:    new("9007199254740993"),
	Flag:        new(true),
	Text:        new("text"),
	Data:        &data,
	Colour:      new(gadgets.COLOURDARKBLUE),
	Pace:        new(gadgets.VerySlow),
	MaybeText:   new(""),
	MaybeInt32:  new(int32(0)),
	MaybeFlag:   new(false),
	MaybeColour: new(gadgets.COLOURUNSPECIFIED),
	Part: &gadgets.Part{
		Label:  new("part"),
		Weight: new("1"),
		Parts:  &[]gadgets.Part{{Label: new("inner"), Paint: new("matt")}},
	},
	Timestamp:   &at,
	Duration:    new("3.5s"),
	FieldMask:   new("text,maybeText"),
	Struct:      &map[string]any{"a": 1, "b": []any{true, nil, "x"}, "c": map[string]any{"d": 2.5}},
	Value:       []any{"v", map[string]any{"w": nil}, 3},
	ListValue:   &[]any{1, "two", map[string]any{"three": []any{3}}},
	Any:         &map[string]any{"@type": anyPart["@type"], "label": "any", "weight": "5"},
	DoubleValue: new(0.1),
	FloatValue:  new(float32(0.5)),
	Int64Value:  new("9007199254740993"),
	Uint64Value: new("18446744073709551615"),
	Int32Value:  new(int32(0)),
	Uint32Value: new(int64(4294967295)),
	BoolValue:   new(false),
	StringValue: new(""),
	BytesValue:  &data,
	Texts:       &[]string{"a", "b"},
	Ints:        &[]int32{1, -2},
	Longs:       &[]string{"9007199254740993"},
	Doubles:     &[]float64{0.1, 2},
	Datas:       &[][]byte{data, {0}},
	Colours:     &[]gadgets.Colour{gadgets.COLOURRED, gadgets.COLOURDARKBLUE},
	Parts:       &[]gadgets.Part{{Label: new("first")}, {Label: new("second")}},
	Timestamps:  &[]time.Time{at},
	Anys:        &[]map[string]any{anyPart},
	Labels:      &map[string]string{"a b": "c", "d": ""},
	Counts:      &map[string]string{"many": "9007199254740993"},
	ByNumber:    &map[string]string{"-7": "seven"},
	ByFlag:      &map[string]gadgets.Colour{"true": gadgets.COLOURRED},
	ByLabel:     &map[string]gadgets.Part{"part": {Label: new("part")}},
	Copy:        &gadgets.Part{Label: new("copy"), Gloss: new(int32(0))},
	Age:         new("60s"),
	Class:       new("class"),
	Type:        new("type"),
	Self:        new("self"),
	Default:     new("default"),
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	api := must(gadgets.NewClientWithResponses(os.Args[1]))
	ctx := context.Background()

	save := must(api.GadgetsServiceSaveGadgetWithResponse(ctx, "main street", "50%", &gadgets.GadgetsServiceSaveGadgetParams{
		UpdateMask:   new("text,maybeText"),
		ValidateOnly: new(true),
	}, gadget))
	get := must(api.GadgetsServiceGetGadgetWithResponse(ctx, "main street", "50%"))
	check := must(api.GadgetsServiceCheckGadgetWithResponse(ctx, gadget))
	add := must(api.GadgetsServiceAddPartWithResponse(ctx, "new part", gadgets.PartBody{Weight: new("9007199254740993")}))
	find := must(api.GadgetsServiceFindGadgetsWithResponse(ctx, &gadgets.GadgetsServiceFindGadgetsParams{
		Text:      new("a b&c"),
		Small:     new(int32(-3)),
		Large:     new("9007199254740993"),
		Unsigned:  new(int64(4294967295)),
		Ratio:     new(1.5),
		Flag:      new(true),
		Data:      new("+/8="),
		Colour:    new(gadgets.COLOURRED),
		Pace:      new(gadgets.VerySlow),
		Maybe:     new(""),
		Texts:     &[]string{"a,b", "c"},
		Ints:      &[]int32{1, -2},
		Colours:   &[]gadgets.Colour{gadgets.COLOURRED, gadgets.COLOURDARKBLUE},
		Since:     &at,
		Within:    new("3.5s"),
		ReadMask:  new("gadgets.name,gadgets.maybeText"),
		Most:      new("9007199254740993"),
		PageSize:  new(int32(2)),
		PageToken: new("t"),
	}))
	names := must(api.GadgetsServiceListNamesWithResponse(
		ctx, "a/b", -3, "9007199254740993", 1.5, true, gadgets.COLOURRED))
	header := must(api.GadgetsServiceGetHeadersWithResponse(ctx, &gadgets.GadgetsServiceGetHeadersParams{
		XPace:  new(gadgets.VerySlow),
		XCount: new(int32(3)),
	}))
	// The typed form would send its list as tags[0] and tags[1].
	fields := url.Values{"userName": {"Ada L."}, "age": {"36"}, "admin": {"true"}, "pace": {"very-slow"}, "tags": {"a", "b"}}
	form := must(api.GadgetsServiceSendFormWithBodyWithResponse(
		ctx, "application/x-www-form-urlencoded", strings.NewReader(fields.Encode())))
	watch := must(api.GadgetsServiceWatchGadgetsWithResponse(
		ctx, &gadgets.GadgetsServiceWatchGadgetsParams{Count: new(int32(2))}))
	missing := must(api.GadgetsServiceGetGadgetWithResponse(ctx, "main street", "none"))
	deleted := must(api.GadgetsServiceDeleteGadgetWithResponse(ctx, "main street", "50%"))

	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"save":  save.JSON200,
		"get":   get.JSON200,
		"check": check.JSON200,
		"add":   add.JSON201,
		"find":  find.JSON200,
		"names": names.JSON200,
		"headers": map[string]any{
			"pace":  header.JSON200.Pace,
			"count": must(strconv.Atoi(header.HTTPResponse.Header.Get("X-Count"))),
		},
		"form":    form.JSON200,
		"watch":   watch.JSON200,
		"missing": map[string]any{"status": missing.StatusCode(), "body": missing.JSONDefault},
		"delete":  deleted.StatusCode(),
	})
}
