"""Calls the server at the URL in the first argument with a generated client, and prints what it returns as JSON."""

import json
import sys
from datetime import datetime, timezone

from gadgets_client import ApiClient, ApiException, Configuration, GadgetsServiceApi
from gadgets_client.models import Colour, Gadget, Pace, Part, PartBody

time = datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=timezone.utc)
any_part = {"@type": "type.googleapis.com/gadgets.v1.Part", "label": "any"}

gadget = Gadget(
    name="one",
    double=0.1,
    single=0.5,
    int32=-2147483648,
    int64="-9007199254740993",
    uint32=4294967295,
    uint64="18446744073709551615",
    sint32=-32,
    sint64="-64",
    fixed32=3000000000,
    fixed64="64",
    sfixed32=32,
    sfixed64="9007199254740993",
    flag=True,
    text="text",
    data="+/8=",
    colour=Colour.COLOUR_DARK_BLUE,
    pace=Pace.VERY_MINUS_SLOW,
    maybe_text="",
    maybe_int32=0,
    maybe_flag=False,
    maybe_colour=Colour.COLOUR_UNSPECIFIED,
    part=Part(label="part", weight="1", parts=[Part(label="inner", paint="matt")]),
    timestamp=time,
    duration="3.5s",
    field_mask="text,maybeText",
    struct={"a": 1, "b": [True, None, "x"], "c": {"d": 2.5}},
    value=["v", {"w": None}, 3],
    list_value=[1, "two", {"three": [3]}],
    any={**any_part, "weight": "5"},
    double_value=0.1,
    float_value=0.5,
    int64_value="9007199254740993",
    uint64_value="18446744073709551615",
    int32_value=0,
    uint32_value=4294967295,
    bool_value=False,
    string_value="",
    bytes_value="+/8=",
    texts=["a", "b"],
    ints=[1, -2],
    longs=["9007199254740993"],
    doubles=[0.1, 2],
    datas=["+/8=", "AA=="],
    colours=[Colour.COLOUR_RED, Colour.COLOUR_DARK_BLUE],
    parts=[Part(label="first"), Part(label="second")],
    timestamps=[time],
    anys=[any_part],
    labels={"a b": "c", "d": ""},
    counts={"many": "9007199254740993"},
    by_number={"-7": "seven"},
    by_flag={"true": Colour.COLOUR_RED},
    by_label={"part": Part(label="part")},
    copy=Part(label="copy", gloss=0),
    age="60s",
    var_class="class",
    type="type",
    var_self="self",
    default="default",
)

api = GadgetsServiceApi(ApiClient(Configuration(host=sys.argv[1])))
name = ("main street", "50%")


def missing():
    try:
        api.gadgets_service_get_gadget("main street", "none")
    except ApiException as error:
        return {"status": error.status, "body": error.data.to_dict()}


def headers():
    response = api.gadgets_service_get_headers_with_http_info(x_pace=Pace.VERY_MINUS_SLOW, x_count=3)
    return {**response.data.to_dict(), "count": int(response.headers["x-count"])}


outcomes = {
    "save": api.gadgets_service_save_gadget(*name, gadget, update_mask="text,maybeText", validate_only=True),
    "get": api.gadgets_service_get_gadget(*name),
    "check": api.gadgets_service_check_gadget(gadget),
    "add": api.gadgets_service_add_part("new part", PartBody(weight="9007199254740993")),
    "find": api.gadgets_service_find_gadgets(
        text="a b&c",
        small=-3,
        large="9007199254740993",
        unsigned=4294967295,
        ratio=1.5,
        flag=True,
        data="+/8=",
        colour=Colour.COLOUR_RED,
        pace=Pace.VERY_MINUS_SLOW,
        maybe="",
        texts=["a,b", "c"],
        ints=[1, -2],
        colours=[Colour.COLOUR_RED, Colour.COLOUR_DARK_BLUE],
        since=time,
        within="3.5s",
        read_mask="gadgets.name,gadgets.maybeText",
        most="9007199254740993",
        page_size=2,
        page_token="t",
    ),
    "names": api.gadgets_service_list_names("a/b", -3, "9007199254740993", 1.5, True, Colour.COLOUR_RED),
    "headers": headers(),
    "form": api.gadgets_service_send_form(
        user_name="Ada L.", age=36, admin=True, pace=Pace.VERY_MINUS_SLOW, tags=["a", "b"]
    ),
    "watch": api.gadgets_service_watch_gadgets(count=2),
    "missing": missing(),
    "delete": api.gadgets_service_delete_gadget_with_http_info(*name).status_code,
}
print(json.dumps(outcomes, default=lambda model: json.loads(model.to_json())))
