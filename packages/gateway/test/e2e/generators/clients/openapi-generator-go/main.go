// Calls the server at the URL in the first argument with a generated client, and prints what it returns as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"client/gadgets"
)

var (
	at      = time.Date(2024, 2, 29, 12, 30, 15, 250_000_000, time.UTC)
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
	Data:        new("+/8="),
	Colour:      gadgets.COLOUR_DARK_BLUE.Ptr(),
	Pace:        gadgets.VERY_SLOW.Ptr(),
	MaybeText:   new(""),
	MaybeInt32:  new(int32(0)),
	MaybeFlag:   new(false),
	MaybeColour: gadgets.COLOUR_UNSPECIFIED.Ptr(),
	Part: &gadgets.Part{
		Label:  new("part"),
		Weight: new("1"),
		Parts:  []gadgets.Part{{Label: new("inner"), Paint: new("matt")}},
	},
	Timestamp:   &at,
	Duration:    new("3.5s"),
	FieldMask:   new("text,maybeText"),
	Struct:      map[string]any{"a": 1, "b": []any{true, nil, "x"}, "c": map[string]any{"d": 2.5}},
	Value:       []any{"v", map[string]any{"w": nil}, 3},
	ListValue:   []any{1, "two", map[string]any{"three": []any{3}}},
	Any:         map[string]any{"@type": anyPart["@type"], "label": "any", "weight": "5"},
	DoubleValue: new(0.1),
	FloatValue:  new(float32(0.5)),
	Int64Value:  new("9007199254740993"),
	Uint64Value: new("18446744073709551615"),
	Int32Value:  new(int32(0)),
	Uint32Value: new(int64(4294967295)),
	BoolValue:   new(false),
	StringValue: new(""),
	BytesValue:  new("+/8="),
	Texts:       []string{"a", "b"},
	Ints:        []int32{1, -2},
	Longs:       []string{"9007199254740993"},
	Doubles:     []float64{0.1, 2},
	Datas:       []string{"+/8=", "AA=="},
	Colours:     []gadgets.Colour{gadgets.COLOUR_RED, gadgets.COLOUR_DARK_BLUE},
	Parts:       []gadgets.Part{{Label: new("first")}, {Label: new("second")}},
	Timestamps:  []time.Time{at},
	Anys:        []map[string]any{anyPart},
	Labels:      map[string]string{"a b": "c", "d": ""},
	Counts:      map[string]string{"many": "9007199254740993"},
	ByNumber:    map[string]string{"-7": "seven"},
	ByFlag:      map[string]gadgets.Colour{"true": gadgets.COLOUR_RED},
	ByLabel:     map[string]gadgets.Part{"part": {Label: new("part")}},
	Copy:        &gadgets.Part{Label: new("copy"), Gloss: new(int32(0))},
	Age:         new("60s"),
	Class:       new("class"),
	Type:        new("type"),
	Self:        new("self"),
	Default:     new("default"),
}

func must[T any](value T, _ *http.Response, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	configuration := gadgets.NewConfiguration()
	configuration.Servers = gadgets.ServerConfigurations{{URL: os.Args[1]}}
	api := gadgets.NewAPIClient(configuration).GadgetsServiceAPI
	ctx := context.Background()

	save := must(api.GadgetsServiceSaveGadget(ctx, "main street", "50%").
		Gadget(gadget).UpdateMask("text,maybeText").ValidateOnly(true).Execute())
	get := must(api.GadgetsServiceGetGadget(ctx, "main street", "50%").Execute())
	check := must(api.GadgetsServiceCheckGadget(ctx).Gadget(gadget).Execute())
	add := must(api.GadgetsServiceAddPart(ctx, "new part").
		PartBody(gadgets.PartBody{Weight: new("9007199254740993")}).Execute())
	find := must(api.GadgetsServiceFindGadgets(ctx).
		Text("a b&c").
		Small(-3).
		Large("9007199254740993").
		Unsigned(4294967295).
		Ratio(1.5).
		Flag(true).
		Data("+/8=").
		Colour(gadgets.COLOUR_RED).
		Pace(gadgets.VERY_SLOW).
		Maybe("").
		Texts([]string{"a,b", "c"}).
		Ints([]int32{1, -2}).
		Colours([]gadgets.Colour{gadgets.COLOUR_RED, gadgets.COLOUR_DARK_BLUE}).
		Since(at).
		Within("3.5s").
		ReadMask("gadgets.name,gadgets.maybeText").
		Most("9007199254740993").
		PageSize(2).
		PageToken("t").
		Execute())
	names := must(api.GadgetsServiceListNames(ctx, "a/b", -3, "9007199254740993", 1.5, true, gadgets.COLOUR_RED).Execute())
	header, response, err := api.GadgetsServiceGetHeaders(ctx).XPace(gadgets.VERY_SLOW).XCount(3).Execute()
	count, _ := strconv.Atoi(must(response, nil, err).Header.Get("X-Count"))
	form := must(api.GadgetsServiceSendForm(ctx).
		UserName("Ada L.").Age(36).Admin(true).Pace(gadgets.VERY_SLOW).Tags([]string{"a", "b"}).Execute())
	watch := must(api.GadgetsServiceWatchGadgets(ctx).Count(2).Execute())
	_, missing, err := api.GadgetsServiceGetGadget(ctx, "main street", "none").Execute()
	var failure *gadgets.GenericOpenAPIError
	errors.As(err, &failure)
	deleted, err := api.GadgetsServiceDeleteGadget(ctx, "main street", "50%").Execute()
	must(deleted, nil, err)

	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"save":    save,
		"get":     get,
		"check":   check,
		"add":     add,
		"find":    find,
		"names":   names,
		"headers": map[string]any{"pace": header.GetPace(), "count": count},
		"form":    form,
		"watch":   watch,
		"missing": map[string]any{"status": missing.StatusCode, "body": failure.Model()},
		"delete":  deleted.StatusCode,
	})
}
